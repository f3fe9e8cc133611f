"""Correctly rounded results of exact sums: float64, the square root, limit over root."""

from __future__ import annotations

import math
from fractions import Fraction

from shardproof.sums.grid import GRID_EXPONENT

_MANTISSA = 53
_LOWEST = -1074  # exponent of the smallest subnormal float64


def rounded_root(total: int, exponent: int = GRID_EXPONENT) -> float:
    """Return sqrt(total x 2**exponent), rounded once to the nearest float64; a tie rounds up.

    `total` is an integer >= 0. inf when the root rounds above the largest float64. Exact: the root is taken
    of an integer, with at least two bits more than a float64 holds, and a sticky bit for what is cut off.
    Why ties go up: docs/decisions/0001-a-tie-of-the-root-rounds-up.md.

    >>> rounded_root(25, 0)
    5.0
    """
    if total == 0:
        return 0.0
    if exponent % 2:
        total, exponent = total << 1, exponent - 1
    # isqrt of this many bits has at least _MANTISSA + 2 of its own.
    shift = max(0, 2 * (_MANTISSA + 2) - total.bit_length() + 1)
    shift += shift % 2
    shifted = total << shift
    root = math.isqrt(shifted)
    inexact = root * root != shifted
    return scaled_float((root << 1) | inexact, (exponent - shift) // 2 - 1, ties_up=True)


def scaled_float(mantissa: int, exponent: int, *, ties_up: bool = False) -> float:
    """Return mantissa x 2**exponent rounded once to the nearest float64; inf above the largest.

    `mantissa` is an integer >= 0. A tie goes to the even neighbour, or up with `ties_up`.

    >>> scaled_float(3, -1)
    1.5
    """
    drop = max(mantissa.bit_length() - _MANTISSA, _LOWEST - exponent)
    if drop > 0:
        kept, rest, half = mantissa >> drop, mantissa & ((1 << drop) - 1), 1 << (drop - 1)
        mantissa = kept + (rest > half or (rest == half and (ties_up or kept & 1)))
        exponent += drop
    try:
        return math.ldexp(mantissa, exponent)
    except OverflowError:
        return math.inf


def rounded_ratio_to_root(limit: float, total: int, exponent: int = GRID_EXPONENT) -> float:
    """Return limit / sqrt(total x 2**exponent), rounded once to float64: the factor when the norm is inf.

    `limit` is finite and >= 0, `total` > 0. Exact: root of the rational limit**2 / (total x 2**exponent).

    >>> rounded_ratio_to_root(1.0, 16, 0)
    0.25
    """
    if limit == 0:
        return 0.0
    square = Fraction(limit) ** 2 / (Fraction(total) * Fraction(2) ** exponent)
    # Enough bits after the point that the quotient keeps the root's rounding right; the rest goes sticky.
    bits = 2 * (_MANTISSA + 4) + max(0, square.denominator.bit_length() - square.numerator.bit_length())
    bits += bits % 2
    quotient, rest = divmod(square.numerator << bits, square.denominator)
    return rounded_root((quotient << 2) | (rest != 0), -bits - 2)
