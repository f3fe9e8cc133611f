"""The buffer is multiplied at each call, and the surplus factors are taken out of the total before the step."""

import math


def solve(run):
    factor, steps = run["factor"], []
    for calls in run["windows"]:
        buffer = [0.0] * len(calls[0])
        for gradient in calls:
            buffer = [(kept + value) * factor for kept, value in zip(buffer, gradient)]
        surplus = factor ** (len(calls) - 1)
        finite = all(map(math.isfinite, buffer))
        steps.append([round(value / surplus, 12) for value in buffer] if finite else "skip")
    return steps
