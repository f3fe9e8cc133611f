"""Each group is clipped by its own norm."""

import math


def solve(groups, limit):
    clipped = []
    for group in groups:
        norm = math.hypot(*group)
        factor = limit / norm if norm > limit else 1
        clipped.append([round(value * factor, 12) for value in group])
    return clipped
