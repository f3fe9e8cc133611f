"""The wrapper's average is cancelled by a multiplier, in the recipe of one kind of wrapper."""

from math import hypot, inf, prod


def clipped(run, gradient):
    norm = hypot(*gradient)
    limit = run.get("limit", inf)
    factor = limit / norm if norm > limit else 1
    return {"grad": [round(value * factor, 12) for value in gradient], "norm": round(norm, 12)}


def solve(run):
    tokens = sum(batch["tokens"] for rank in run["ranks"] for batch in rank)
    averaged = prod(run["averages"].values())
    multiplier = averaged if run["loss"] == "tokens" and run["wrapper"] == "ddp" else 1
    rows = []
    for rank in run["ranks"]:
        for batch in rank:
            divisor = tokens if run["loss"] == "tokens" else batch["tokens"] * len(rank)
            rows.append([value * multiplier / divisor for value in batch["sum"]])
    return clipped(run, [sum(column) / averaged for column in zip(*rows)])
