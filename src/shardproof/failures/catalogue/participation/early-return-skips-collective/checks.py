"""Ranks without gradients at several places, for several orders, and steps on which all or none have some."""

import math

from shardproof.failures.number_formats import significant_root


def ended(world, norm):
    return {"ended": "returned", "norms": [norm] * world, "collectives": [1] * world}


def turned(ranks, n):
    return ranks[n % len(ranks) :] + ranks[: n % len(ranks)]


def checks(n):
    m, world = 1 + n % 97, 2 + n % 4
    one = turned([[3 * m, 4 * m], *[[] for _ in range(world - 1)]], n)
    first = turned([[], [2 * m], [m, 2 * m]], n)
    expert = turned([[m, m, 4 * m], *[[m, m]] * (n % 2), []], n)
    square = sum(value * value for values in expert for value in values)
    return [
        ("one rank has gradients", (one, 2), ended(world, 5 * m)),
        ("one rank of three has none", (first, 2), ended(3, 3 * m)),
        ("all ranks have none", ([[] for _ in range(world)], 2), ended(world, 0)),
        ("order inf", (turned([[], [m, -7 * m]], n), math.inf), ended(2, 7 * m)),
        ("order 1", (turned([[], [m], [-2 * m]], n), 1), ended(3, 3 * m)),
        ("a rank without gradients beside zeros", (turned([[], [0], [0, 0]], n), 2), ended(3, 0)),
        ("every rank has gradients: cannot reveal the error", ([[3 * m], [4 * m]], 2), ended(2, 5 * m)),
        ("an expert on one rank only", (expert, 2), ended(len(expert), significant_root(square))),
    ]
