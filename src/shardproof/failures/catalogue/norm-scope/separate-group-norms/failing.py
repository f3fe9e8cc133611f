"""Each group is clipped by its own norm."""

import math


def clip(values, limit):
    norm = math.hypot(*values)
    factor = limit / norm if norm > limit else 1
    return [round(value * factor, 12) for value in values]


def solve(groups, limit):
    return {name: clip(values, limit) for name, values in groups.items()}
