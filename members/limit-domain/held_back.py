"""The same rule at the smallest and largest numbers, and on empty gradients."""

import math
from fractions import Fraction

from shardproof.failures.number_formats import significant

REFUSED = {"raises": "ValueError"}


def checks(n):
    values = [2 * n, -n, 2 * n]
    return [
        ("minus infinity", (values, -math.inf), REFUSED),
        ("the smallest negative number", (values, -5e-324), REFUSED),
        ("negative zero is zero", (values, -0.0), {"norm": 3 * n, "values": [0, 0, 0]}),
        ("a list for a limit", (values, [n]), REFUSED),
        ("an empty gradient and a nan limit", ([], math.nan), REFUSED),
        ("an empty gradient", ([], n), {"norm": 0, "values": []}),
        (
            "a fraction",
            (values, 1.5 * n),
            {"norm": 3 * n, "values": [significant(Fraction(value, 2)) for value in values]},
        ),
    ]
