"""Each shard's norm is scaled by its largest magnitude, which a shard without values does not have."""

import math


def digits(number):
    return float(f"{number:.11e}")


def norm_of(values, order):
    largest = max(abs(value) for value in values)
    if math.isinf(order) or largest == 0:
        return largest
    return largest * sum((abs(value) / largest) ** order for value in values) ** (1 / order)


def solve(shards, order, limit):
    order = float(order)
    norm = norm_of([norm_of(shard, order) for shard in shards], order)
    return {"norm": digits(norm), "factor": digits(limit / norm if norm > limit else 1.0)}
