"""The limit is checked before anything is scaled; one meaning each for None, inf and 0."""

import math


def digits(number):
    return float(f"{number:.11e}")


def checked(limit):
    if limit is None:
        return math.inf
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit >= 0:
        raise ValueError(f"Expected a limit of at least 0, got {limit!r}.")
    return limit


def solve(values, limit):
    most = checked(limit)
    norm = math.hypot(*values)
    factor = most / norm if norm > most else 1.0
    return {"norm": digits(norm), "values": [digits(value * factor) for value in values]}
