"""Squares, their sum and the root in the gradients' own format."""

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
    total, dtype = 0.0, "float32"
    for group in groups:
        dtype = group["dtype"]
        for value in group["values"]:
            total = cast(total + cast(value * value, dtype), dtype)
    norm = cast(math.sqrt(total), dtype)
    factor = min(1.0, limit / norm) if norm else 1.0
    values = [[digits(cast(value * factor, group["dtype"])) for value in group["values"]] for group in groups]
    return {"norm": digits(norm), "factor": digits(factor), "values": values}
