"""The same rule on other worlds: one rank, equal ranks, zeros, and order three."""

import math


def checks(n):
    m, world = 1 + n % 97, 2 + n % 4
    return [
        ("one rank and a text", ([[m, -9 * m]], "Infinity", 3 * m), {"norm": 9 * m, "factor": 0.333333333333}),
        ("equal ranks", ([[-m]] * world, math.inf, m), {"norm": m, "factor": 1}),
        ("a zero gradient", ([[0]] * world, math.inf, m), {"norm": 0, "factor": 1}),
        ("a zero limit", ([[2 * m]] * world, math.inf, 0), {"norm": 2 * m, "factor": 0}),
        ("order 3", ([[3 * m, -4 * m], [5 * m]], 3, 3 * m), {"norm": 6 * m, "factor": 0.5}),
    ]
