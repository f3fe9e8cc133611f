"""Parts are resolved to the elements of the whole gradient; their powers are added, and one root is taken."""

import math


def resolved(part):
    """The elements of one part, each once."""
    ranks = part["ranks"]
    if part["lies"] == "distinct":
        return [value for rank in ranks for value in rank]
    if part["lies"] == "copies":
        return next((rank for rank in ranks if rank), [])
    if part["lies"] == "again":
        return []
    summed = [math.fsum(values) for values in zip(*ranks)]
    return [value / len(ranks) for value in summed] if part["lies"] == "mean" else summed


def solve(parts, order, limit, reduce):
    sizes = [abs(value) for part in parts for value in resolved(part)]
    if order == math.inf:
        norm = max(sizes, default=0)
    elif order == 2:
        norm = math.hypot(*sizes)
    else:
        norm = math.fsum(size**order for size in sizes) ** (1 / order)
    return {"norm": round(norm, 12), "factor": round(limit / norm, 12) if norm > limit else 1}
