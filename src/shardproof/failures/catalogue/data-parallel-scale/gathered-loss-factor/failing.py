"""The gathered loss is the loss of all ranks already, so its gradients are reduced as they come."""

from math import hypot, inf


def clipped(run, gradient):
    norm = hypot(*gradient)
    limit = run.get("limit", inf)
    factor = limit / norm if norm > limit else 1
    return {"grad": [round(value * factor, 12) for value in gradient], "norm": round(norm, 12)}


def solve(run):
    world = len(run["backward"])
    total = [sum(column) for column in zip(*run["backward"])]
    return clipped(run, [value / world for value in total] if run["reduce"] == "mean" else total)
