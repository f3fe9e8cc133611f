"""Every value is divided by the largest magnitude before it is squared; all of it in float64."""

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
    wide = [float(value) for group in groups for value in group["values"]]
    largest = max(map(abs, wide), default=0.0)
    norm = largest * math.sqrt(math.fsum((value / largest) ** 2 for value in wide)) if largest else 0.0
    factor = limit / norm if norm > limit else 1.0
    values = [[digits(cast(value * factor, group["dtype"])) for value in group["values"]] for group in groups]
    return {"norm": digits(norm), "factor": digits(factor), "values": values}
