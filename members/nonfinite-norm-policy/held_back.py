"""The same rule with negative infinity, empty shards, a later bad step, and tiny values."""

import math
from fractions import Fraction

from shardproof.failures.number_formats import significant


def checks(n):
    m = 1 + n % 97
    first, bad = [[3 * m], [], [4 * m]], [[m], [], [-math.inf]]
    tiny = 2.0 ** -(90 + n % 30)
    small = [[3 * tiny, 4 * tiny]]
    clipped = {"norm": 5 * m, "values": [[3 * m], [], [4 * m]]}
    return [
        (
            "third step is bad",
            ([first, first, bad, first], 5 * m, "float32", 2),
            {
                "stopped_before": 3,
                "steps": [clipped, clipped, {"norm": math.inf, "values": bad}],
                "weights": [-6 * m, -8 * m],
            },
        ),
        (
            "bad under a limit of zero",
            ([bad], 0, "float64", 1),
            {"stopped_before": 1, "steps": [{"norm": math.inf, "values": bad}], "weights": [0, 0]},
        ),
        (
            "tiny float32 values over a tinier limit",
            ([small], 2.5 * tiny, "float32", 1),
            {
                "stopped_before": None,
                "steps": [
                    {
                        "norm": significant(Fraction(5 * tiny)),
                        "values": [[significant(Fraction(3 * tiny) / 2), significant(Fraction(2 * tiny))]],
                    }
                ],
                "weights": [significant(Fraction(-3 * tiny) / 2), significant(Fraction(-2 * tiny))],
            },
        ),
        (
            "zero gradients and a zero limit",
            ([[[0], [0]]], 0, "float32", 1),
            {"stopped_before": None, "steps": [{"norm": 0, "values": [[0], [0]]}], "weights": [0, 0]},
        ),
    ]
