"""Padding is cut off first; then one sum and one count over all ranks."""

import math


def solve(shards, counts, result):
    real = [value for shard, count in zip(shards, counts) for value in shard[:count]]
    if not real:
        return 0.0
    return round(math.hypot(*real) if result == "norm" else math.fsum(real) / len(real), 12)
