"""Squares of all ranks' values are added and the root is taken once, as for shards."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(partials, limit):
    squares = [sum(value * value for value in summand) for summand in partials]
    norm = math.sqrt(sum(squares))
    factor = limit / norm if norm > limit else 1.0
    return {"norm": digits(norm), "values": [digits(sum(summands) * factor) for summands in zip(*partials)]}
