"""A float64 accumulator for numbers, Python's integers for sizes; a mean is rounded to the format once."""

import math
import struct

FORMATS = {"float16": ">e", "float32": ">f"}


def store(number, dtype):
    if dtype != "bfloat16":
        return struct.unpack(FORMATS[dtype], struct.pack(FORMATS[dtype], number))[0]
    bits = struct.unpack(">I", struct.pack(">f", number))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack(">f", struct.pack(">I", bits & 0xFFFF0000))[0]


def solve(dtype, terms, average):
    count = sum(times for _, times in terms)
    if dtype == "int32":
        return sum(value * times for value, times in terms)
    total = math.fsum(value * times for value, times in terms)
    result = store(total / count, dtype) if average and count else total
    return float(f"{result:.11e}")
