"""Expected values of checks: computed with integers and fractions, rounded once, by no implementation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

Exact = int | Fraction
DIGITS = 12


def rounded(value: Exact, digits: int = DIGITS) -> float:
    """The float64 nearest to `value` after rounding it, exactly and half to even, to `digits` decimals.

    >>> rounded(Fraction(6, 5)), rounded(Fraction(2, 3)), rounded(3)
    (1.2, 0.666666666667, 3.0)
    """
    return float(round(Fraction(value), digits))


def root(square: Exact, digits: int = DIGITS) -> float:
    """The float64 nearest to the square root of `square` after rounding the root to `digits` decimals, half up.

    Exact: integers decide on which side of a rounding boundary the root lies. Raises ValueError below zero.

    >>> root(25), root(2), root(Fraction(1, 4))
    (5.0, 1.414213562373, 0.5)
    """
    if square < 0:
        raise ValueError(f"Expected a square of at least 0, got square={square!r}.")
    scaled = Fraction(square) * 100**digits
    # isqrt(4x) is floor(2 sqrt(x)); adding one and halving rounds sqrt(x) to the nearest integer, half up.
    return float(Fraction((math.isqrt(math.floor(4 * scaled)) + 1) // 2, 10**digits))


def scaled(values: Iterable[Exact], numerator: Exact, denominator: Exact, digits: int = DIGITS) -> list[float]:
    """Each value times numerator / denominator, exactly, then rounded: one row of a clipped result.

    >>> scaled([3, 0], 2, 5)
    [1.2, 0.0]
    """
    return [rounded(Fraction(value) * Fraction(numerator) / Fraction(denominator), digits) for value in values]
