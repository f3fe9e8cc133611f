"""An epsilon beside the norm keeps the quotient finite, and the factor is held at one."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(values, limit):
    most = math.inf if limit is None else limit
    if not most >= 0:
        raise ValueError(f"a limit of {limit}")
    norm = math.hypot(*values)
    factor = min(1.0, most / (norm + 1e-6))
    return {"norm": digits(norm), "values": [digits(value * factor) for value in values]}
