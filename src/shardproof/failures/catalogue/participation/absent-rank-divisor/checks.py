"""Ranks that have run out of data, under each rule; all present, one present, none present."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def rank(*values, tokens=1):
    return {"gradient": list(values), "tokens": tokens}


def mean(present, count):
    return [rounded(Fraction(sum(values), count)) for values in zip(*(each["gradient"] for each in present))]


def placed(present, world, n):
    ranks = [*present, *[None] * (world - len(present))]
    return ranks[n % world :] + ranks[: n % world]


def checks(n):
    m, world = 1 + n % 97, 4 + n % 3
    three = [rank(m), rank(m), rank(m)]
    full = [rank(m * each) for each in range(1, world + 1)]
    alone = [rank(8 * m, -m)]
    counted = [rank(6 * m, tokens=3), rank(2 * m, tokens=1)]
    unequal = [rank(m, 2 * m), rank(4 * m, 0)]
    return [
        ("three ranks are left, present", (placed(three, 4, n), "present"), [m]),
        ("three ranks are left, initial", (placed(three, 4, n), "initial"), mean(three, 4)),
        ("one rank is left, present", (placed(alone, world, n), "present"), [8 * m, -m]),
        ("one rank is left, initial", (placed(alone, world, n), "initial"), mean(alone, world)),
        ("two ranks are left, present", (placed(unequal, world, n), "present"), mean(unequal, 2)),
        ("all ranks are there: cannot reveal the error", (full, ("initial", "present")[n % 2]), mean(full, world)),
        ("tokens need no choice: cannot reveal the error", (placed(counted, 3, n), "tokens"), [2 * m]),
        ("no rank is left: cannot reveal the error", ([None] * world, "present"), None),
    ]
