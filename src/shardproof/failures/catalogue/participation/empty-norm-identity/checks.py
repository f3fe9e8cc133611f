"""Nothing at all, and empty shards between others, for several orders of the norm."""

import math
from fractions import Fraction

from shardproof.failures.number_formats import significant


def ended(norm, limit):
    return {"norm": norm, "factor": significant(Fraction(limit) / norm) if norm > limit else 1}


def among(shards, n):
    at = n % (len(shards) + 1)
    return [*shards[:at], [], *shards[at:]]


def checks(n):
    m = 1 + n % 97
    pair, cubes = among([[3 * m], [4 * m]], n), among([[3 * m, 4 * m], [5 * m]], n)
    signed, values = among([[2 * m, -3 * m]], n), [[3 * m, -4 * m]]
    nothing = [[] for _ in range(n % 4)]
    return [
        ("order 2, one empty shard", ([[]], 2, m), ended(0, m)),
        ("order inf, one empty shard", ([[]], math.inf, m), ended(0, m)),
        ("order 1, one empty shard", ([[]], 1, m), ended(0, m)),
        ("order 3, empty shard beside others", (cubes, 3, m), ended(6 * m, m)),
        ("order inf, empty shard beside others", (signed, math.inf, m), ended(3 * m, m)),
        ("order 2, empty shard beside others", (pair, 2, m), ended(5 * m, m)),
        ("no parameters", (nothing, 2, 1), ended(0, 1)),
        ("no empty shard: cannot reveal the error", (values, 2, 2 * m), ended(5 * m, 2 * m)),
        ("zeros: cannot reveal the error", ([[0], [0, 0]], math.inf, m), ended(0, m)),
    ]
