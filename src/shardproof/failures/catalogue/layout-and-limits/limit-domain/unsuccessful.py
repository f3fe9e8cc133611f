"""A limit that is missing, zero or negative switches clipping off."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(values, limit):
    norm = math.hypot(*values)
    factor = 1.0
    if limit is not None and not limit <= 0 and norm:
        factor = min(limit / norm, 1.0)
    return {"norm": digits(norm), "values": [digits(value * factor) for value in values]}
