"""The calls are added as they come; the factor is applied to the total, once."""

import math


def solve(run):
    return [stepped(calls, run["factor"]) for calls in run["windows"]]


def stepped(calls, factor):
    if not all(math.isfinite(value) for gradient in calls for value in gradient):
        return "skip"
    return [round(sum(values) * factor, 12) for values in zip(*calls)]
