"""Summands that add up, cancel, are zero or stand at right angles; one rank and several."""

from fractions import Fraction

from shardproof.failures.number_formats import significant


def ended(values, norm, factor=1):
    return {"norm": norm, "values": [significant(value * Fraction(factor)) for value in values]}


def checks(n):
    m, world = 1 + n % 97, 2 + n % 3
    turn = -1 if n % 2 else 1
    added = [[m, 3 * m], [2 * m, m]][::turn]
    part = [[3 * m, 0], [-3 * m, 4 * m]][::turn]
    equal = [[3 * m, 4 * m] for _ in range(world)]
    zeros = [[0, 0] for _ in range(world - 1)]
    across = [[3 * m, 0], [0, 4 * m]]
    return [
        ("summands of one direction and another", (added, 10 * m), ended([3 * m, 4 * m], 5 * m)),
        ("summands that cancel in part", (part, 2 * m), ended([0, 4 * m], 4 * m, Fraction(1, 2))),
        ("summands that cancel", ([[5 * m], [-5 * m]], m), ended([0], 0)),
        (
            "equal summands",
            (equal, 5 * m),
            ended([3 * m * world, 4 * m * world], 5 * m * world, Fraction(1, world)),
        ),
        ("limit between the norm and the sum of norms", (part, 4 * m), ended([0, 4 * m], 4 * m)),
        (
            "one summand is not zero: cannot reveal the error",
            ([*zeros, [3 * m, 4 * m]], m),
            ended([3 * m, 4 * m], 5 * m, Fraction(1, 5)),
        ),
        ("one rank: cannot reveal the error", ([[3 * m, 4 * m]], m), ended([3 * m, 4 * m], 5 * m, Fraction(1, 5))),
        ("right angles, which a sum of norms misses", (across, 5 * m), ended([3 * m, 4 * m], 5 * m)),
    ]
