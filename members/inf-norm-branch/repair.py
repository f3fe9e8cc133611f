"""The order is made a float first; for infinity the largest over all shards, without a root."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(shards, order, limit):
    power = float(order)
    sizes = [abs(value) for shard in shards for value in shard]
    if power == math.inf:
        norm = max(sizes, default=0.0)
    else:
        norm = math.fsum(size**power for size in sizes) ** (1 / power)
    return {"norm": digits(norm), "factor": digits(limit / norm if norm > limit else 1.0)}
