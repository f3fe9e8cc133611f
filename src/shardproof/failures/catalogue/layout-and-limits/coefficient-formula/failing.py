"""Every gradient is multiplied by limit / norm."""

import math


def digits(number):
    return float(f"{number:.11e}")


def divided(number, by):
    if by:
        return number / by
    return math.inf if number > 0 else math.nan


def solve(values, limit):
    if limit is None or math.isinf(limit):
        return {"norm": digits(math.hypot(*values)), "values": [digits(value) for value in values]}
    if not isinstance(limit, (int, float)) or limit < 0:
        raise ValueError(limit)
    norm = math.hypot(*values)
    return {"norm": digits(norm), "values": [digits(value * divided(limit, norm)) for value in values]}
