"""The plain recipe normalises its loss; the other paths hand back sums, which the wrapper averages."""

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
    rows = []
    for rank in run["ranks"]:
        for batch in rank:
            scale = averaged / divisor(run, rank, batch) if run["path"] == "plain" else 1
            rows.append([value * scale for value in batch["sum"]])
    return clipped(run, [sum(column) / averaged for column in zip(*rows)])
