"""Rounding of exact sums, judged by fractions: nearest, ties, subnormals, the largest float."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shardproof.sums import rounded_ratio_to_root, rounded_root, scaled_float
from shardproof.sums.grid import GRID_EXPONENT

SMALLEST = 5e-324
LARGEST = sys.float_info.max
exponents = st.integers(-2300, 2000)
integers = st.one_of(st.integers(0, 2**70), st.integers(0, 2**2200), st.integers(0, 2**64).map(lambda n: n * n))


def neighbours(value: float) -> tuple[Fraction, Fraction]:
    """The points halfway to the float64 below and above `value`, as if no largest existed."""
    below = Fraction(math.nextafter(value, 0.0)) if value else Fraction(0)
    above = Fraction(2) ** 1024 if value == LARGEST else Fraction(math.nextafter(value, math.inf))
    return (below + Fraction(value)) / 2, (Fraction(value) + above) / 2


def is_nearest_root(root: float, square: Fraction) -> bool:
    """Whether `root` is the float64 nearest to sqrt(square), the larger of two that are equally near."""
    if root == math.inf:
        return square >= ((Fraction(LARGEST) + Fraction(2) ** 1024) / 2) ** 2
    low, high = neighbours(root)
    return (low**2 <= square or root == 0) and square < high**2


@settings(deadline=None, max_examples=300)
@given(integers, exponents)
def test_the_root_is_nearest(total: int, exponent: int) -> None:
    assert is_nearest_root(rounded_root(total, exponent), Fraction(total) * Fraction(2) ** exponent)


@settings(deadline=None, max_examples=200)
@given(st.floats(min_value=0, max_value=LARGEST), st.integers(-3, 3))
def test_the_root_is_nearest_beside_a_tie(value: float, off: int) -> None:
    """The hardest inputs: squares of points halfway between two float64, and values beside them."""
    tie = neighbours(value)[1]
    square = tie**2 / Fraction(2) ** (GRID_EXPONENT - 64) + off
    assume(square.denominator == 1 and square > 0)
    total = square.numerator
    root = rounded_root(total, GRID_EXPONENT - 64)
    above = math.inf if value == LARGEST else math.nextafter(value, math.inf)
    assert root == (value if off < 0 else above)


@settings(deadline=None)
@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_the_root_of_a_square_is_the_number(value: float) -> None:
    numerator, denominator = value.as_integer_ratio()
    assert rounded_root(numerator**2, -2 * (denominator.bit_length() - 1)) == value


@pytest.mark.parametrize(
    ("total", "exponent", "root"),
    [
        (0, 0, 0.0),
        (25, 0, 5.0),
        (1, -2148, SMALLEST),
        (1, -2150, SMALLEST),  # half the smallest subnormal: a tie, up
        (1, -2151, 0.0),  # just below half
        (3, -2150, SMALLEST),
        (9, -2150, 2 * SMALLEST),  # 1.5 subnormals: a tie, up
        (1, 2046, 2.0**1023),
        (1, 2048, math.inf),
        (((2**53 - 1) << 971) ** 2, 0, LARGEST),
        (((2**54 - 1) << 970) ** 2, 0, math.inf),  # halfway between the largest and 2**1024: a tie, up
        (((2**54 - 1) << 970) ** 2 - 1, 0, LARGEST),
    ],
)
def test_edges_of_the_root(total: int, exponent: int, root: float) -> None:
    assert rounded_root(total, exponent) == root


def test_ties_of_the_root_round_up_on_both_sides_of_even() -> None:
    """docs/decisions/0001: 2**53 + 1 and 2**53 + 3 are halfway; up is even for one and odd for the other."""
    assert rounded_root((2**53 + 1) ** 2, 0) == 2.0**53 + 2
    assert rounded_root((2**53 + 3) ** 2, 0) == 2.0**53 + 4
    assert rounded_root((2**53 + 1) ** 2 - 1, 0) == 2.0**53
    assert rounded_root((2**53 + 1) ** 2 + 1, 0) == 2.0**53 + 2


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**120), st.integers(-1200, 1100))
def test_scaled_float_agrees_with_python_rounding(mantissa: int, exponent: int) -> None:
    """int / int in Python is rounded once, half to even; scaled_float must agree bit for bit."""
    exact = Fraction(mantissa) * Fraction(2) ** exponent
    try:
        expected = exact.numerator / exact.denominator
    except OverflowError:
        expected = math.inf
    assert scaled_float(mantissa, exponent) == expected


def test_scaled_float_ties() -> None:
    assert scaled_float(2**53 + 1, 0) == 2.0**53
    assert scaled_float(2**53 + 1, 0, ties_up=True) == 2.0**53 + 2
    assert scaled_float(1, -1075) == 0.0
    assert scaled_float(1, -1075, ties_up=True) == SMALLEST


@settings(deadline=None, max_examples=300)
@given(
    st.floats(min_value=0, allow_infinity=False, allow_nan=False),
    st.one_of(st.integers(1, 2**200), st.integers(1, 2**4300)),
)
def test_limit_over_root_is_nearest(limit: float, total: int) -> None:
    ratio = rounded_ratio_to_root(limit, total)
    assert is_nearest_root(ratio, Fraction(limit) ** 2 / (Fraction(total) * Fraction(2) ** GRID_EXPONENT))


@pytest.mark.parametrize(
    ("limit", "total", "exponent", "ratio"),
    [
        (1.0, 16, 0, 0.25),
        (0.0, 16, 0, 0.0),
        (LARGEST, 1, 0, LARGEST),
        (LARGEST, 1, -2, math.inf),
        (1.0, 1, 2148, SMALLEST),
    ],
)
def test_edges_of_limit_over_root(limit: float, total: int, exponent: int, ratio: float) -> None:
    assert rounded_ratio_to_root(limit, total, exponent) == ratio
