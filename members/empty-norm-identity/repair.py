"""Every order starts from 0.0: the largest of nothing and the sum of nothing."""

import math


def digits(number):
    return float(f"{number:.11e}")


def norm_of(values, order):
    largest = max(map(abs, values), default=0.0)
    if math.isinf(order) or largest == 0:
        return largest
    return largest * math.fsum((abs(value) / largest) ** order for value in values) ** (1 / order)


def solve(shards, order, limit):
    norm = norm_of([value for shard in shards for value in shard], float(order))
    return {"norm": digits(norm), "factor": digits(limit / norm if norm > limit else 1.0)}
