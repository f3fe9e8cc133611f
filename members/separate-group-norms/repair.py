"""The groups are joined for one norm, and every group is scaled by the one factor."""

import itertools
import math


def solve(groups, limit):
    norm = math.hypot(*itertools.chain.from_iterable(groups.values()))
    # Multiplied before it is divided: one rounding fewer than with a factor.
    numerator, denominator = (limit, norm) if norm > limit else (1, 1)
    return {name: [round(value * numerator / denominator, 12) for value in groups[name]] for name in groups}
