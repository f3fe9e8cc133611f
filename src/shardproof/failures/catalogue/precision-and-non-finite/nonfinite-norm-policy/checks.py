"""Infinite and NaN gradients on one shard, between logged steps, under no limit; finite ones with wide norms."""

import math
from fractions import Fraction

from shardproof.failures.number_formats import significant


def taken(shards, norm, factor=1):
    values = [[significant(Fraction(value) * Fraction(factor)) for value in shard] for shard in shards]
    return {"norm": significant(Fraction(norm)), "values": values}


def ended(stopped, steps, weights):
    return {"stopped_before": stopped, "steps": steps, "weights": weights}


def checks(n):
    m, world = 1 + n % 97, 2 + n % 3
    bad = n % world
    infinite = [[math.inf if rank == bad else m + rank] for rank in range(world)]
    unknown = [[math.nan if rank == bad else m + rank] for rank in range(world)]
    both = [[math.inf, m], [math.nan]]
    nothing = [0] * world
    big = 2.0**66 * (1 + n % 5)
    large = [[big, big], [big, big]] if n % 2 else [[big], [big, big, big]]
    plain, small = [[3 * m], [4 * m]], [[m, 2 * m], [2 * m]]
    return [
        (
            "one infinite value, never a step of zeros",
            ([infinite], 1, "float32", 1),
            ended(1, [{"norm": math.inf, "values": infinite}], nothing),
        ),
        (
            "one nan",
            ([unknown], m, "float32", 10),
            ended(1, [{"norm": math.nan, "values": unknown}], nothing),
        ),
        (
            "infinite and nan together",
            ([both], m, "float64", 10),
            ended(1, [{"norm": math.nan, "values": both}], [0, 0, 0]),
        ),
        (
            "finite float32 values with infinite squares",
            ([large], 1, "float32", 1),
            ended(None, [taken(large, 2 * big, 1 / Fraction(2 * big))], [-0.5] * 4),
        ),
        (
            "bad step between two logged steps",
            ([[[m]], [[math.nan]], [[m]]], 2 * m, "float32", 10),
            ended(2, [taken([[m]], m), {"norm": math.nan, "values": [[math.nan]]}], [-m]),
        ),
        (
            "no limit and an infinite norm",
            ([infinite], math.inf, "float32", 5),
            ended(1, [{"norm": math.inf, "values": infinite}], nothing),
        ),
        (
            "finite over the limit: cannot reveal the error",
            ([plain], m, "float32", 1),
            ended(
                None,
                [taken(plain, 5 * m, Fraction(1, 5))],
                [significant(Fraction(-3 * m, 5)), significant(Fraction(-4 * m, 5))],
            ),
        ),
        (
            "finite under the limit: cannot reveal the error",
            ([small], 10 * m, "float32", 2),
            ended(None, [taken(small, 3 * m)], [-m, -2 * m, -2 * m]),
        ),
    ]
