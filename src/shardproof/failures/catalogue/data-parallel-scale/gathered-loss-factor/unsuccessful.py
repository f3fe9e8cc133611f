"""A gathered loss is multiplied by the number of ranks under the wrappers that are known to average."""

from math import hypot, inf


def clipped(run, gradient):
    norm = hypot(*gradient)
    limit = run.get("limit", inf)
    factor = limit / norm if norm > limit else 1
    return {"grad": [round(value * factor, 12) for value in gradient], "norm": round(norm, 12)}


AVERAGING = ("ddp", "megatron")


def solve(run):
    world = len(run["backward"])
    factor = world if run["wrapper"] in AVERAGING else 1
    total = [factor * sum(column) for column in zip(*run["backward"])]
    return clipped(run, [value / world for value in total] if run["reduce"] == "mean" else total)
