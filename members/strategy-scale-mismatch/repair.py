"""The sum is normalised before backward on every path, and the wrapper's average is cancelled on every path."""

from math import hypot, inf, prod


def clipped(run, gradient):
    norm = hypot(*gradient)
    limit = run.get("limit", inf)
    factor = limit / norm if norm > limit else 1
    return {"grad": [round(value * factor, 12) for value in gradient], "norm": round(norm, 12)}


def divisor(run, rank, batch):
    if run["loss"] == "tokens":
        return sum(other["tokens"] for held in run["ranks"] for other in held)
    return batch["tokens"] * len(rank) * len(run["ranks"])


def solve(run):
    averaged = prod(run["averages"].values())
    # Whatever the wrapper divides by, the loss is multiplied by: the product of all factors is 1 / divisor.
    rows = [
        [value * averaged / divisor(run, rank, batch) for value in batch["sum"]]
        for rank in run["ranks"]
        for batch in rank
    ]
    return clipped(run, [sum(column) / averaged for column in zip(*rows)])
