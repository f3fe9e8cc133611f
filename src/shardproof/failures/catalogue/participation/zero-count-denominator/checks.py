"""Ranks without valid tokens among others, alone, and everywhere; counts that differ."""

REFUSED = {"raises": "ValueError"}


def turned(values, n):
    return values[n % len(values) :] + values[: n % len(values)]


def checks(n):
    m, world = 1 + n % 97, 2 + n % 3
    return [
        ("one of two ranks has no tokens", (turned([0, 8 * m], n), turned([0, 4], n)), {"mean": 2 * m, "tokens": 4}),
        (
            "one of three ranks has no tokens",
            (turned([0, 6 * m, 6 * m], n), turned([0, 3, 1], n)),
            {"mean": 3 * m, "tokens": 4},
        ),
        (
            "one part of a sequence has no tokens",
            (turned([0, 4 * m], n), turned([0, 2], n)),
            {"mean": 2 * m, "tokens": 2},
        ),
        ("no rank has tokens", ([0] * world, [0] * world), {"mean": 0, "tokens": 0}),
        ("one rank, no tokens", ([0], [0]), {"mean": 0, "tokens": 0}),
        ("a sum over no tokens", (turned([m, 2 * m], n), turned([0, 2], n)), REFUSED),
        (
            "unequal counts, none of them zero",
            (turned([6 * m, 6 * m], n), turned([3, 1], n)),
            {"mean": 3 * m, "tokens": 4},
        ),
        ("equal counts: cannot reveal the error", ([2 * m, 6 * m], [2, 2]), {"mean": 2 * m, "tokens": 4}),
    ]
