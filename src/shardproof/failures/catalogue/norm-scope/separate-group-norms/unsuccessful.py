"""Each group is clipped by its own norm to an equal share of the limit, so that together they stay within it."""

import math


def solve(groups, limit):
    share = limit / math.sqrt(len(groups)) if groups else limit
    clipped = {}
    for name, values in groups.items():
        norm = math.hypot(*values)
        factor = min(1, share / norm) if norm else 1
        clipped[name] = [round(value * factor, 12) for value in values]
    return clipped
