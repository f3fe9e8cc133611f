"""A scaled norm, looked at before every step; the first step with an infinite or NaN gradient is not taken."""

import itertools
import math


def digits(number):
    return float(f"{number:.11e}")


def norm_of(values):
    if any(math.isnan(value) for value in values):
        return math.nan
    return math.hypot(*values)


def solve(steps, limit, dtype, log_every):
    done, weights = [], [0.0] * sum(map(len, steps[0]))
    for number, shards in enumerate(steps, 1):
        norm = norm_of([value for shard in shards for value in shard])
        stop = not all(math.isfinite(value) for shard in shards for value in shard)
        factor = limit / norm if not stop and norm > limit else 1.0
        values = [[value * factor for value in shard] for shard in shards]
        done.append({"norm": digits(norm), "values": [[digits(value) for value in shard] for shard in values]})
        if stop:
            return {"stopped_before": number, "steps": done, "weights": [digits(weight) for weight in weights]}
        weights = [weight - value for weight, value in zip(weights, itertools.chain(*values))]
    return {"stopped_before": None, "steps": done, "weights": [digits(weight) for weight in weights]}
