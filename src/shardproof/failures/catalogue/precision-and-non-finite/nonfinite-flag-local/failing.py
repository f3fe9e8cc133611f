"""Each rank looks at the sum of its own values, and leaves the step alone if that is not finite."""

import itertools
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
    sums = [total(values, dtype) for values in ranks]
    joined = [values for values, seen in zip(ranks, sums) if math.isfinite(seen)]
    norm = math.hypot(*itertools.chain(*joined))
    factor = limit / norm if norm > limit else 1.0
    ended = []
    for values, seen in zip(ranks, sums):
        if math.isfinite(seen):
            clipped = [digits(value * factor) for value in values]
            ended.append({"skip": False, "scale": scale, "norm": digits(norm), "values": clipped})
        else:
            ended.append({"skip": True, "scale": scale / 2, "norm": digits(abs(seen)), "values": values})
    return ended
