"""Order infinity as a float and as a text, over one and several ranks, beside the finite orders."""

import math
from fractions import Fraction

from shardproof.failures.number_formats import significant


def ended(norm, limit):
    return {"norm": norm, "factor": significant(Fraction(limit) / norm) if norm > limit else 1}


def checks(n):
    m, turn = 1 + n % 97, n % 2
    shards = [[3 * m, -7 * m], [2 * m, m]][:: -1 if turn else 1]
    stages = [[3 * m], [8 * m], *[[m]] * (n % 3)]
    small = [[0.25 / (1 + n % 4)], [0.5 / (1 + n % 4)]]
    text = "infinity" if turn else "Inf"
    return [
        ("order inf over the limit", (shards, math.inf, 3.5 * m), ended(7 * m, 3.5 * m)),
        ("order as a text", (shards, text, 3.5 * m), ended(7 * m, 3.5 * m)),
        ("norms of stages", (stages, math.inf, 4 * m), ended(8 * m, 4 * m)),
        ("order inf under the limit", (shards, math.inf, 10 * m), ended(7 * m, 10 * m)),
        ("order inf beside an empty shard", ([[], [m, -7 * m]], math.inf, 7 * m), ended(7 * m, 7 * m)),
        (
            "order inf below one",
            (small, math.inf, 1),
            {"norm": significant(Fraction(1, 2 * (1 + n % 4))), "factor": 1},
        ),
        ("order 1: cannot reveal the error", ([[3 * m], [-4 * m]], 1, m), ended(7 * m, m)),
        ("order 2: cannot reveal the error", ([[3 * m], [-4 * m]], 2, m), ended(5 * m, m)),
    ]
