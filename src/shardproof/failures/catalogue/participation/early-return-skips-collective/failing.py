"""A rank without gradients returns zero before the all-reduce."""

import math


def digits(number):
    return float(f"{number:.11e}")


def part(values, order):
    if math.isinf(order):
        return max(map(abs, values), default=0.0)
    return sum(abs(value) ** order for value in values)


def combined(parts, order):
    if math.isinf(order):
        return max(parts, default=0.0)
    return sum(parts) ** (1 / order)


def solve(ranks, order):
    started = [1 if values else 0 for values in ranks]
    if 0 in started and 1 in started:
        norms = [None if joined else 0.0 for joined in started]
        return {"ended": "hang", "norms": norms, "collectives": started}
    norm = combined([part(values, order) for values in ranks], order)
    return {"ended": "returned", "norms": [digits(norm) for _ in ranks], "collectives": started}
