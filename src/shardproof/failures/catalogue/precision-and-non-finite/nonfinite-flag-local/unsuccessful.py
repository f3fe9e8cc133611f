"""The first rank looks at the sum of its values and tells all others what to do."""

import math
import struct

FORMATS = {"float16": ">e", "float32": ">f", "float64": ">d"}


def digits(number):
    return float(f"{number:.11e}")


def total(values, dtype):
    result = 0.0
    for value in values:
        try:
            result = struct.unpack(FORMATS[dtype], struct.pack(FORMATS[dtype], result + value))[0]
        except OverflowError:
            result = math.copysign(math.inf, result + value)
    return result


def solve(ranks, limit, scale, dtype):
    seen = total(ranks[0], dtype) if ranks else 0.0
    skip = not math.isfinite(seen)
    norm = math.sqrt(sum(float(value) * value for values in ranks for value in values))
    factor = limit / norm if norm and not skip else 1.0
    if factor > 1.0:
        factor = 1.0
    return [
        {
            "skip": skip,
            "scale": scale / 2 if skip else scale,
            "norm": digits(norm),
            "values": [digits(value * factor) for value in values],
        }
        for values in ranks
    ]
