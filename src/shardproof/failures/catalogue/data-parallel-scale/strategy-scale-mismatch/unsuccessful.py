"""Backward sees sums on the other paths; the norm that is logged and clipped by is divided as the logged loss is."""

from math import hypot, inf, prod


def divisor(run, rank, batch):
    if run["loss"] == "tokens":
        return sum(other["tokens"] for held in run["ranks"] for other in held)
    return batch["tokens"] * len(rank) * len(run["ranks"])


def solve(run):
    averaged = prod(run["averages"].values())
    raw, normal = [], []
    for rank in run["ranks"]:
        for batch in rank:
            normal.append([value / divisor(run, rank, batch) for value in batch["sum"]])
            raw.append([value / averaged for value in batch["sum"]])
    norm = hypot(*(sum(column) for column in zip(*normal)))
    limit = run.get("limit", inf)
    factor = limit / norm if norm > limit else 1
    gradient = [sum(column) for column in zip(*(normal if run["path"] == "plain" else raw))]
    return {"grad": [round(value * factor, 12) for value in gradient], "norm": round(norm, 12)}
