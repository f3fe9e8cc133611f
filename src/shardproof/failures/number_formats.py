"""Expected values in significant digits and in narrow number formats: from integers and fractions, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

Exact = int | Fraction
DIGITS = 12

# Bits of the significand (the hidden one counted) and the smallest and largest exponent of a normal number.
_FORMATS = {"float16": (11, -14, 15), "bfloat16": (8, -126, 127), "float32": (24, -126, 127)}


def significant(value: Exact, digits: int = DIGITS) -> float:
    """The float64 nearest to `value` after rounding it, exactly and half to even, to `digits` significant digits.

    >>> significant(Fraction(2, 3)), significant(3), significant(Fraction(1, 3 * 10**20))
    (0.666666666667, 3.0, 3.33333333333e-21)
    """
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    unit = Fraction(10) ** (_decade(abs(exact)) - digits + 1)
    return float(round(exact / unit) * unit)


def significant_root(square: Exact, digits: int = DIGITS) -> float:
    """The float64 nearest to the root of `square`, rounded to `digits` significant digits.

    >>> significant_root(2), significant_root(Fraction(2, 10**60)), significant_root(0)
    (1.41421356237, 1.41421356237e-30, 0.0)
    """
    return significant(root_near(square), digits)


def root_near(square: Exact, bits: int = 200) -> Fraction:
    """The root of `square` as a fraction, exact where it is rational, else within a relative 2**-bits.

    Raises ValueError below zero.

    >>> root_near(Fraction(9, 4)), float(root_near(2))
    (Fraction(3, 2), 1.4142135623730951)
    """
    if square < 0:
        raise ValueError(f"Expected a square of at least 0, got square={square!r}.")
    exact = Fraction(square)
    top, bottom = math.isqrt(exact.numerator), math.isqrt(exact.denominator)
    if top * top == exact.numerator and bottom * bottom == exact.denominator:
        return Fraction(top, bottom)
    # root(a/b) = root(a b) / b; the shift leaves at least `bits` bits before the point of the integer root.
    return Fraction(math.isqrt(exact.numerator * exact.denominator << 2 * bits), exact.denominator << bits)


def stored(value: Exact, dtype: str) -> float:
    """The number of the format `dtype` nearest to `value`, half to even; inf beyond the largest.

    >>> stored(Fraction(1, 10**7), "float16"), stored(257, "bfloat16"), stored(70000, "float16")
    (1.1920928955078125e-07, 256.0, inf)
    """
    bits, smallest, largest = _FORMATS[dtype]
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    unit = Fraction(2) ** (max(_binade(abs(exact)), smallest) - bits + 1)
    nearest = round(exact / unit) * unit
    if abs(nearest) >= Fraction(2) ** (largest + 1):
        return math.inf if nearest > 0 else -math.inf
    return float(nearest)


def _binade(exact: Fraction) -> int:
    guess = exact.numerator.bit_length() - exact.denominator.bit_length()
    return guess if Fraction(2) ** guess <= exact else guess - 1


def _decade(exact: Fraction) -> int:
    guess = math.floor(_binade(exact) * math.log10(2))
    while Fraction(10) ** (guess + 1) <= exact:
        guess += 1
    while Fraction(10) ** guess > exact:
        guess -= 1
    return guess
