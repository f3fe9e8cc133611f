"""Each window, the last too, is divided by what was really accumulated in it."""

import math
from itertools import islice


def solve(run):
    remaining, steps = iter(run["micro"]), []
    while window := list(islice(remaining, run["every"])):
        total = items = 0
        for part in window:
            if math.isfinite(part["sum"]):
                total, items = total + part["sum"], items + part["count"]
        if items:
            steps.append(round(total / items, 12))
    return steps
