"""Terms are added up in the format in which they are stored; a mean divides afterwards."""

import math
import struct

FORMATS = {"float16": ">e", "float32": ">f"}


def cast(number, dtype):
    if dtype == "int32":
        return (int(number) + 2**31) % 2**32 - 2**31
    if dtype == "bfloat16":
        bits = struct.unpack(">I", struct.pack(">f", number))[0]
        if math.isfinite(number):
            bits += 0x7FFF + (bits >> 16 & 1)
        return struct.unpack(">f", struct.pack(">I", bits & 0xFFFF0000))[0]
    try:
        return struct.unpack(FORMATS[dtype], struct.pack(FORMATS[dtype], number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def digits(number):
    return float(f"{number:.11e}")


def solve(dtype, terms, average):
    total, count = 0, 0
    for value, times in terms:
        for _ in range(times):
            total = cast(total + value, dtype)
        count += times
    return digits(cast(total / count, dtype) if average and count else total)
