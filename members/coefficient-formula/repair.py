"""Values pass through unless the norm is above the limit; then they are multiplied by limit / norm."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(values, limit):
    if limit is not None and (isinstance(limit, (bool, str)) or not limit >= 0):
        raise ValueError(f"Expected a limit of at least 0, got {limit!r}.")
    norm = math.hypot(*values)
    if limit is None or norm <= limit:
        return {"norm": digits(norm), "values": [digits(value) for value in values]}
    factor = limit / norm
    return {"norm": digits(norm), "values": [digits(value * factor) for value in values]}
