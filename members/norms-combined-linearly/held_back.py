"""The same rule on more ranks, with empty ranks, summands and a limit above the norm."""

from fractions import Fraction

from shardproof.failures.clipping import turned
from shardproof.failures.exact import rounded


def distinct(*ranks):
    return {"lies": "distinct", "ranks": [list(rank) for rank in ranks]}


def ended(norm, limit):
    return {"norm": rounded(norm), "factor": rounded(min(Fraction(1), Fraction(limit) / Fraction(norm)))}


def checks(n):
    m = 1 + n % 97
    world = 2 + n % 3
    three = [distinct(*turned([[2 * m], [], [m, 2 * m]], n))]
    copies = {"lies": "copies", "ranks": [[3 * m, 4 * m] for _ in range(world)]}
    summands = {"lies": "summands", "ranks": [[3 * m, 0], [0, 4 * m]]}
    return [
        ("an empty rank, adding", (three, 2, m, "sum"), ended(3 * m, m)),
        ("an empty rank, averaging", (three, 2, m, "mean"), ended(3 * m, m)),
        ("order 1, averaging", (three, 1, m, "mean"), ended(5 * m, m)),
        ("copies only", ([copies], 2, m, "sum"), ended(5 * m, m)),
        ("summands", ([summands], 2, 9 * m, "sum"), ended(5 * m, 9 * m)),
        ("nothing at all", ([distinct([], [])], 2, m, "sum"), {"norm": 0, "factor": 1}),
    ]
