"""One float64 norm over the values of all groups; only the clipped values are rounded to a format."""

import math
import struct

FORMATS = {"float16": ">e", "float32": ">f"}


def cast(number, dtype):
    if dtype == "bfloat16":
        bits = struct.unpack(">I", struct.pack(">f", cast(number, "float32")))[0]
        if math.isfinite(number):
            bits += 0x7FFF + (bits >> 16 & 1)
        return struct.unpack(">f", struct.pack(">I", bits & 0xFFFF0000))[0]
    try:
        return struct.unpack(FORMATS[dtype], struct.pack(FORMATS[dtype], number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def digits(number):
    return float(f"{number:.11e}")


def solve(groups, limit):
    norm = math.hypot(*(float(value) for group in groups for value in group["values"]))
    factor = 1.0 if norm <= limit else limit / norm
    values = [[digits(cast(value * factor, group["dtype"])) for value in group["values"]] for group in groups]
    return {"norm": digits(norm), "factor": digits(factor), "values": values}
