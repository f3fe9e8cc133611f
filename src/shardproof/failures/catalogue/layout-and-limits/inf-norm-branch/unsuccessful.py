"""A branch for the float infinity on each rank; over ranks the results are added as for the other orders."""

import math


def digits(number):
    return float(f"{number:.11e}")


def local_part(shard, order):
    if order == math.inf:
        return max((abs(value) for value in shard), default=0.0)
    return sum(abs(value) ** float(order) for value in shard)


def solve(shards, order, limit):
    total = float(sum(local_part(shard, order) for shard in shards))
    norm = total if order == math.inf else total ** (1 / float(order))
    return {"norm": digits(norm), "factor": digits(limit / norm if norm > limit else 1.0)}
