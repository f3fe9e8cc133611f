"""A bad value on the first, on another and on the last rank; large finite values; ranks without values."""

import math
from fractions import Fraction

from shardproof.failures.number_formats import significant


def skipped(ranks, scale, norm):
    return [{"skip": True, "scale": scale / 2, "norm": norm, "values": values} for values in ranks]


def stepped(ranks, scale, norm, factor=1):
    rows = [[significant(Fraction(value) * Fraction(factor)) for value in values] for values in ranks]
    return [{"skip": False, "scale": scale, "norm": significant(norm), "values": row} for row in rows]


def checks(n):
    m, world, scale = 1 + n % 97, 3 + n % 3, 2.0 ** (1 + n % 12)
    first = [[math.inf, m]] + [[m + rank] for rank in range(1, world)]
    later = [[m + rank] for rank in range(world)]
    later[1 + n % (world - 1)] = [math.nan]
    empty = [[], [-math.inf, m], []][: 2 + n % 2]
    plain, small = [[3 * m], [4 * m]], [[2 * m], [m, 2 * m]]
    big = 40000 + 32 * (n % 700)
    return [
        ("infinite on the first rank only", (first, m, scale, "float32"), skipped(first, scale, math.inf)),
        ("nan on another rank only", (later, m, scale, "float32"), skipped(later, scale, math.nan)),
        ("ranks without values beside a bad one", (empty, m, scale, "float16"), skipped(empty, scale, math.inf)),
        (
            "infinities of both signs on one rank",
            ([[m], [math.inf, -math.inf]], m, scale, "float32"),
            skipped([[m], [math.inf, -math.inf]], scale, math.inf),
        ),
        (
            "float16 values whose sum is infinite",
            ([[big, big], [big, big]], 4 * big, scale, "float16"),
            stepped([[big, big], [big, big]], scale, 2 * big),
        ),
        (
            "such a value on one rank: cannot reveal the error",
            ([[big], []], big, scale, "float16"),
            stepped([[big], []], scale, big),
        ),
        (
            "all finite, over the limit: cannot reveal the error",
            (plain, m, scale, "float32"),
            stepped(plain, scale, 5 * m, Fraction(1, 5)),
        ),
        (
            "all finite, under the limit: cannot reveal the error",
            (small, 4 * m, scale, "float32"),
            stepped(small, scale, 3 * m),
        ),
        (
            "one rank, nan: cannot reveal the error",
            ([[m, math.nan]], m, scale, "float32"),
            skipped([[m, math.nan]], scale, math.nan),
        ),
    ]
