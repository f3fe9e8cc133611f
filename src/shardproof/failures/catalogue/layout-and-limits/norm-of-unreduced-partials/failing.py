"""The norm of each rank's summand, added over ranks."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(partials, limit):
    norm = sum(math.hypot(*summand) for summand in partials)
    factor = limit / norm if norm > limit else 1.0
    return {"norm": digits(norm), "values": [digits(sum(summands) * factor) for summands in zip(*partials)]}
