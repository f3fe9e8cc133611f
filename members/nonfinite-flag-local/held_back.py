"""The same rule with several bad ranks, a zero limit, and large finite values on every rank."""

import math


def checks(n):
    m, world, scale = 1 + n % 97, 2 + n % 4, 4.0 * (1 + n % 5)
    many = [[m]] + [[math.inf] for _ in range(world - 1)] + [[math.nan, 1]]
    last = [[0.0] for _ in range(world)] + [[-math.inf]]
    high = 16 * (1 + n % 50)
    large = [[2 * high, -high], [2 * high]]
    fine = [[60000, 60000], [60000, 60000]]

    def skipped(ranks, norm):
        return [{"skip": True, "scale": scale / 2, "norm": norm, "values": values} for values in ranks]

    return [
        ("several bad ranks", (many, m, scale, "float32"), skipped(many, math.nan)),
        ("zeros beside an infinite value", (last, m, scale, "float16"), skipped(last, math.inf)),
        (
            "sums that overflow on every rank",
            (fine, 60000, scale, "float16"),
            [{"skip": False, "scale": scale, "norm": 120000, "values": [30000, 30000]} for _ in range(2)],
        ),
        (
            "a zero limit",
            (large, 0, scale, "float16"),
            [{"skip": False, "scale": scale, "norm": 3 * high, "values": [0] * len(values)} for values in large],
        ),
    ]
