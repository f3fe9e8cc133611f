"""The factor is limit / norm whatever the norm is; the norm is looked at when a step is logged, after the step."""

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


def solve(steps, limit, dtype, log_every):
    done, weights, stopped = [], [0.0] * sum(map(len, steps[0])), None
    for number, shards in enumerate(steps, 1):
        norm = norm_of(shards, dtype)
        factor = limit / norm if norm else 1.0
        if factor > 1.0:
            factor = 1.0
        values = [[digits(value * factor) for value in shard] for shard in shards]
        weights = [weight - value for weight, value in zip(weights, itertools.chain(*values))]
        done.append({"norm": digits(norm), "values": values})
        if number % log_every == 0 and not math.isfinite(norm):
            stopped = number + 1
            break
    return {"stopped_before": stopped, "steps": done, "weights": [digits(weight) for weight in weights]}
