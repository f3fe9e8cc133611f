"""Negative, NaN, zero, missing, infinite and mistyped limits on one gradient."""

import math
from fractions import Fraction

from shardproof.failures.number_formats import significant

REFUSED = {"raises": "ValueError"}


def ended(values, norm, factor=1):
    return {"norm": norm, "values": [significant(value * Fraction(factor)) for value in values]}


def checks(n):
    values = [3 * n, 4 * n] if n % 2 else [4 * n, 0, 3 * n]
    return [
        ("over the limit: cannot reveal the error", (values, n), ended(values, 5 * n, Fraction(1, 5))),
        ("negative limit", (values, -n), REFUSED),
        ("negative fraction", (values, -0.5 * n), REFUSED),
        ("zero limit gives zeros", (values, 0), ended(values, 5 * n, 0)),
        ("infinite limit: cannot reveal the error", (values, math.inf), ended(values, 5 * n)),
        ("no limit", (values, None), ended(values, 5 * n)),
        ("nan limit", (values, math.nan), REFUSED),
        ("a truth value for a limit", (values, n % 3 > 0), REFUSED),
        ("a text for a limit", (values, f"{n}.0"), REFUSED),
        ("zero gradient and a negative limit", ([0] * (1 + n % 3), -n), REFUSED),
    ]
