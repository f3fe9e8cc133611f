"""Clipping raises where the norm is infinite or NaN, and the run ends there."""

import itertools
import math
import struct


def cast(number, dtype):
    if dtype == "float64":
        return number
    try:
        return struct.unpack(">f", struct.pack(">f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def digits(number):
    return float(f"{number:.11e}")


def norm_of(shards, dtype):
    total = 0.0
    for shard in shards:
        for value in shard:
            total = cast(total + cast(float(value) * value, dtype), dtype)
    return cast(math.sqrt(total), dtype)


def clip(shards, limit, dtype):
    norm = norm_of(shards, dtype)
    if not math.isfinite(norm):
        raise RuntimeError(f"the norm of the gradients is {norm}")
    factor = limit / norm if norm > limit else 1.0
    return norm, [[value * factor for value in shard] for shard in shards]


def solve(steps, limit, dtype, log_every):
    done, weights = [], [0.0] * sum(map(len, steps[0]))
    for shards in steps:
        norm, values = clip(shards, limit, dtype)
        weights = [weight - value for weight, value in zip(weights, itertools.chain(*values))]
        done.append({"norm": digits(norm), "values": [[digits(value) for value in shard] for shard in values]})
    return {"stopped_before": None, "steps": done, "weights": [digits(weight) for weight in weights]}
