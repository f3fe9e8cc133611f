"""The factor comes from what gather and collective do: parts add up, whole gradients are averaged."""

from math import hypot, inf


def clipped(run, gradient):
    norm = hypot(*gradient)
    limit = run.get("limit", inf)
    factor = limit / norm if norm > limit else 1
    return {"grad": [round(value * factor, 12) for value in gradient], "norm": round(norm, 12)}


def solve(run):
    world = len(run["backward"])
    total = [sum(column) for column in zip(*run["backward"])]
    reduced = [value / world for value in total] if run["reduce"] == "mean" else total
    if run["gather"] == "detached" and run["reduce"] == "mean":
        reduced = [value * world for value in reduced]
    if run["gather"] == "differentiable" and run["reduce"] == "sum":
        reduced = [value / world for value in reduced]
    return clipped(run, reduced)
