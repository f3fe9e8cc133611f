"""Gradients are divided by the global token count; the wrapper averages over its ranks as it always does."""

from math import hypot, inf, prod


def clipped(run, gradient):
    norm = hypot(*gradient)
    limit = run.get("limit", inf)
    factor = limit / norm if norm > limit else 1
    return {"grad": [round(value * factor, 12) for value in gradient], "norm": round(norm, 12)}


def solve(run):
    tokens = sum(batch["tokens"] for rank in run["ranks"] for batch in rank)
    rows = []
    for rank in run["ranks"]:
        for batch in rank:
            divisor = tokens if run["loss"] == "tokens" else batch["tokens"] * len(rank)
            rows.append([value / divisor for value in batch["sum"]])
    averaged = prod(run["averages"].values())
    return clipped(run, [sum(column) / averaged for column in zip(*rows)])
