"""The exact sum: judged by fractions, the same in any order, merged in any grouping."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.sums import ExactSum

LARGEST = sys.float_info.max
values = st.lists(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(allow_nan=False, allow_infinity=False, width=16),
        st.integers(-(2**80), 2**80),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(values)
def test_sums_are_exact(numbers: list[float]) -> None:
    assert ExactSum.of_squares(numbers).fraction() == sum((Fraction(n) ** 2 for n in numbers), Fraction(0))
    assert ExactSum.of_magnitudes(numbers).fraction() == sum((abs(Fraction(n)) for n in numbers), Fraction(0))


@settings(deadline=None)
@given(values, values, values)
def test_merging_is_associative_and_commutative_and_changes_neither(a, b, c) -> None:
    x, y, z = map(ExactSum.of_squares, (a, b, c))
    before = (x.total, y.total, z.total)
    assert x.merge(y).merge(z) == x.merge(y.merge(z)) == z.merge(x).merge(y) == ExactSum.of_squares(a + b + c)
    assert (x.total, y.total, z.total) == before


@settings(deadline=None)
@given(st.lists(st.floats(min_value=-1e100, max_value=1e100), max_size=30))
def test_value_agrees_with_fsum(numbers: list[float]) -> None:
    assert ExactSum.of_magnitudes(numbers).value() == math.fsum(map(abs, numbers))


@settings(deadline=None)
@given(values)
def test_limbs_there_and_back(numbers: list[float]) -> None:
    total = ExactSum.of_squares(numbers)
    assert ExactSum.from_limbs(total.limbs()) == total


@pytest.mark.parametrize(
    ("numbers", "root"),
    [
        ([], 0.0),
        ([5e-324], 5e-324),
        ([-5e-324, 0.0, -0.0], 5e-324),
        ([1e-200] * 4, 2e-200),
        ([LARGEST], LARGEST),
        ([LARGEST, LARGEST], math.inf),
        ([1e300, 1.0], 1e300),
        ([3e200, 4e200], 5e200),
    ],
)
def test_roots(numbers: list[float], root: float) -> None:
    assert ExactSum.of_squares(numbers).root() == root


def test_a_small_summand_is_not_lost() -> None:
    """1 + 2**-60 squared terms: float64 addition drops the small one, the exact sum decides the tie by it."""
    tie = ExactSum.of_magnitudes([2.0**53, 1.0])
    assert tie.value() == 2.0**53
    assert tie.merge(ExactSum.of_magnitudes([5e-324])).value() == 2.0**53 + 2


def test_size_does_not_erode_the_sum() -> None:
    one = ExactSum.of_squares([0.1])
    million = ExactSum(one.total * 10**6)
    assert million.root() == 100.0
    assert million.fraction() == 10**6 * Fraction(0.1) ** 2


def test_an_overfull_sum_has_no_limbs() -> None:
    with pytest.raises(OverflowError, match="on the grid"):
        ExactSum.of_squares([10**400]).limbs()
    assert ExactSum.of_squares([10**400]).root() == math.inf


@pytest.mark.parametrize("numbers", [[math.nan], [math.inf], [1.0, -math.inf]])
def test_what_is_not_finite_is_never_summed(numbers: list[float]) -> None:
    with pytest.raises((ValueError, OverflowError)):
        ExactSum.of_squares(numbers)
    with pytest.raises((ValueError, OverflowError)):
        ExactSum.of_magnitudes(numbers)
