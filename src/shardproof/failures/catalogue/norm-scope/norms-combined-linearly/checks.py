"""Norms of ranks that hold other elements, copies, and parts of a mean, for several orders."""

from fractions import Fraction

from shardproof.failures.clipping import turned
from shardproof.failures.exact import root, rounded

INF = float("inf")


def distinct(*ranks):
    return {"lies": "distinct", "ranks": [list(rank) for rank in ranks]}


def ended(norm, limit):
    return {"norm": rounded(norm), "factor": rounded(min(Fraction(1), Fraction(limit) / Fraction(norm)))}


def checks(n):
    m = 1 + n % 97
    k = 1 + n % 5  # small where the norm is no integer: float64 has to hold 12 decimals of it
    reduce = ["sum", "mean"][n % 2]
    two = [distinct(*turned([[3 * m], [4 * m]], n))]
    dense = {"lies": "copies", "ranks": [[6 * m], [6 * m]]}
    again = {"lies": "again", "ranks": turned([[3 * m], []], n)}
    mean = {"lies": "mean", "ranks": turned([[3 * m, 0], [-3 * m, 4 * m]], n)}
    # 3 ** 3 + 4 ** 3 + 5 ** 3 is 6 ** 3.
    cubes = [distinct(*turned([[3 * m], [4 * m, 5 * m]], n))]
    uneven = [distinct(*turned([[4 * k, 2 * k], [6 * k, 8 * k]], n))]
    factor = root(Fraction(25, 120))
    return [
        ("the collective adds", (two, 2, m, "sum"), ended(5 * m, m)),
        ("the collective averages", (two, 2, m, "mean"), ended(5 * m, m)),
        ("order 3", (cubes, 3, 2 * m, reduce), ended(6 * m, 2 * m)),
        ("norms that are no integers", (uneven, 2, 5 * k, "mean"), {"norm": root(120 * k * k), "factor": factor}),
        ("copies beside experts", ([dense, distinct([8 * m], [0])], 2, 5 * m, reduce), ended(10 * m, 5 * m)),
        ("a tensor under two names", ([*two, again], 2, m, reduce), ended(5 * m, m)),
        ("the mean of two local gradients", ([mean], 2, m, "mean"), ended(2 * m, m)),
        ("order 1: cannot reveal an addition of norms", (two, 1, m, "sum"), ended(7 * m, m)),
        ("order inf: cannot reveal the largest norm", (two, INF, m, reduce), ended(4 * m, m)),
        ("one rank: cannot reveal the error", ([distinct([3 * m, 4 * m])], 2, m, reduce), ended(5 * m, m)),
    ]
