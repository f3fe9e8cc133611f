"""The mean of each rank's mean, and norms over whole buffers: a buffer's length is taken for its count."""

import math


def mean(values):
    return sum(values) / len(values) if values else math.nan


def solve(shards, counts, result):
    if result == "norm":
        return round(math.hypot(*(value for shard in shards for value in shard)), 12)
    return round(mean([mean(shard) for shard in shards]), 12)
