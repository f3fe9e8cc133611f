"""Means are weighted by the real counts; padding is taken to be zero, so that sums may run over it."""

import math


def solve(shards, counts, result):
    if result == "norm":
        return round(math.sqrt(sum(value * value for shard in shards for value in shard)), 12)
    total = sum(sum(shard) for shard in shards)
    return round(total / sum(counts), 12) if sum(counts) else 0.0
