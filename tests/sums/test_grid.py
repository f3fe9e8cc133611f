"""The grid: what fits, limbs there and back, sums of limbs over as many ranks as the bound says."""

from __future__ import annotations

import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.sums import GRID_EXPONENT, LIMB_BITS, LIMBS, MAX_RANKS, ExactSum
from shardproof.sums.grid import GRID_BITS, from_limbs, to_limbs

SMALLEST = 5e-324
LARGEST = sys.float_info.max
totals = st.integers(0, 2**GRID_BITS - 1)


@settings(deadline=None)
@given(totals)
def test_limbs_there_and_back(total: int) -> None:
    limbs = to_limbs(total)
    assert len(limbs) == LIMBS
    assert all(0 <= limb < 2**LIMB_BITS for limb in limbs)
    assert from_limbs(limbs) == total


@pytest.mark.parametrize("total", [0, 1, 2**32 - 1, 2**32, 2**GRID_BITS - 1])
def test_limbs_at_the_edges(total: int) -> None:
    assert from_limbs(to_limbs(total)) == total


@pytest.mark.parametrize("total", [-1, 2**GRID_BITS])
def test_what_does_not_fit_is_refused(total: int) -> None:
    with pytest.raises(OverflowError, match="on the grid"):
        to_limbs(total)


def test_the_grid_holds_every_square_of_a_float64() -> None:
    unit = Fraction(2) ** GRID_EXPONENT
    assert Fraction(SMALLEST) ** 2 / unit == 2**28
    assert Fraction(LARGEST) ** 2 < unit * 2**GRID_BITS
    # The room above the largest square: 2**96 of them still fit.
    assert Fraction(LARGEST) ** 2 * 2**96 < unit * 2**GRID_BITS


@settings(deadline=None)
@given(st.lists(totals, min_size=1, max_size=20))
def test_summed_limbs_stand_for_the_sum(parts: list[int]) -> None:
    summed = [sum(column) for column in zip(*map(to_limbs, parts), strict=True)]
    assert from_limbs(summed) == sum(parts)


def test_max_ranks_is_the_largest_count_whose_limbs_fit_int64() -> None:
    full_limb = 2**LIMB_BITS - 1
    assert MAX_RANKS * full_limb < 2**63
    assert (MAX_RANKS + 2) * full_limb > 2**63 - 1
    full = to_limbs(2**GRID_BITS - 1)
    assert set(full) == {full_limb}
    summed = [MAX_RANKS * limb for limb in full]  # what a SUM all-reduce over MAX_RANKS full ranks gives
    assert max(summed) < 2**63
    assert from_limbs(summed) == MAX_RANKS * (2**GRID_BITS - 1)


def test_limbs_of_a_summed_packet_are_a_sum_again() -> None:
    one, other = ExactSum.of_squares([3e200]), ExactSum.of_squares([4e200])
    summed = [a + b for a, b in zip(one.limbs(), other.limbs(), strict=True)]
    assert ExactSum.from_limbs(summed) == one.merge(other)
    assert ExactSum.from_limbs(summed).root() == 5e200
