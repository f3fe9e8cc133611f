"""Every rank clips its accumulated gradient; the clipped gradients are reduced."""

import math


def combined(vectors, how):
    divisor = len(vectors) if how == "mean" else 1
    return [sum(values) / divisor for values in zip(*vectors)]


def solve(run):
    clipped = []
    for micro_batches in run["ranks"]:
        gradient = combined(micro_batches, run["accumulate"])
        norm = math.hypot(*gradient)
        factor = min(1.0, run["limit"] / norm) if norm else 1.0
        clipped.append([value * factor for value in gradient])
    return [round(value, 12) for value in combined(clipped, run["reduce"])]
