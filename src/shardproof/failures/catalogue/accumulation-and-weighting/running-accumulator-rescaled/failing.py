"""The buffer that accumulates is multiplied in place, at each call."""

import math


def solve(run):
    steps = []
    for calls in run["windows"]:
        buffer = [0.0] * len(calls[0])
        for gradient in calls:
            buffer = [(kept + value) * run["factor"] for kept, value in zip(buffer, gradient)]
        finite = all(map(math.isfinite, buffer))
        steps.append([round(value, 12) for value in buffer] if finite else "skip")
    return steps
