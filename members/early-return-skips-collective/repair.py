"""Every rank gives its part, 0 where it has no gradients, and gets the combined norm back."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(ranks, order):
    sizes = [[abs(value) for value in values] for values in ranks]
    if math.isinf(order):
        norm = max((max(row, default=0.0) for row in sizes), default=0.0)
    else:
        norm = math.fsum(size**order for row in sizes for size in row) ** (1 / order)
    return {"ended": "returned", "norms": [digits(norm)] * len(ranks), "collectives": [1] * len(ranks)}
