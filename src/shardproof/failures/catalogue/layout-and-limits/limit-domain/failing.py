"""The limit is divided by the norm as it comes."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(values, limit):
    norm = math.hypot(*values)
    factor = limit / norm if norm else 1.0
    if factor > 1.0:
        factor = 1.0
    return {"norm": digits(norm), "values": [digits(value * factor) for value in values]}
