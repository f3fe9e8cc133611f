"""The first call of a configured cycle is copied to the buffer; what follows is expected to be there already."""

import math


def solve(run):
    buffer, call, steps = [], 0, []
    for gradients in run["windows"]:
        for gradient in gradients:
            if call % run["every"] == 0:
                buffer = list(gradient)
            call += 1
        finite = all(map(math.isfinite, buffer))
        steps.append([round(value * run["factor"], 12) for value in buffer] if finite else "skip")
    return steps
