"""Each group's norm in the group's format; the norm of these norms is rounded to it as well."""

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


def group_norm(group):
    total = 0.0
    for value in group["values"]:
        total = cast(total + cast(value * value, group["dtype"]), group["dtype"])
    return cast(math.sqrt(total), group["dtype"])


def solve(groups, limit):
    norm = math.hypot(*map(group_norm, groups))
    if groups:
        norm = cast(norm, groups[0]["dtype"])
    factor = limit / norm if norm > limit else 1.0
    values = [[digits(cast(value * factor, group["dtype"])) for value in group["values"]] for group in groups]
    return {"norm": digits(norm), "factor": digits(factor), "values": values}
