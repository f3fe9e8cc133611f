"""What holds for every input: partition, order, the bound after clipping, clipping twice."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof import clip_factor, clip_shards, global_norm
from shardproof.clip import factor_of_sum
from shardproof.sums import ExactSum

finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.one_of(finite, st.integers(-(2**70), 2**70))
ordinary = st.floats(min_value=-1e6, max_value=1e6, allow_subnormal=False)
limits = st.floats(min_value=0, max_value=1e6)


def cut(values: list[float], places: list[int]) -> list[list[float]]:
    """`values` in pieces that end at `places` (modulo the length); pieces may be empty."""
    ends = [0, *sorted(place % (len(values) + 1) for place in places), len(values)]
    return [values[start:stop] for start, stop in itertools.pairwise(ends)]


def flat(shards: list[list[float]]) -> list[float]:
    return list(itertools.chain.from_iterable(shards))


@settings(deadline=None)
@given(st.lists(numbers, max_size=40), st.lists(st.integers(0, 100), max_size=8), st.randoms(), limits)
def test_every_partition_and_order_gives_the_same_bits(values, places, random, limit) -> None:
    shuffled = random.sample(values, len(values))
    whole, parts = global_norm([values]), global_norm(cut(shuffled, places))
    assert math.copysign(1, whole) == 1
    assert whole.hex() == parts.hex()
    if whole < math.inf:
        assert clip_factor(whole, limit).hex() == clip_factor(parts, limit).hex()
    assert flat(clip_shards(cut(values, places), limit)) == clip_shards([values], limit)[0]


@settings(deadline=None)
@given(st.lists(ordinary, min_size=1, max_size=40), st.lists(st.integers(0, 100), max_size=4), limits)
def test_the_clipped_norm_exceeds_the_limit_by_rounding_only(values, places, limit) -> None:
    """norm(clipped) <= limit * (1 + 4 u) + sqrt(n) * (5e-13 + largest * u), u = 2**-53.

    The norm, the factor and each product round once (relative u each, together below 4 u); rounding to 12
    decimals moves a value by at most 5e-13 and then by its own rounding to float64, at most `largest` * u.
    """
    clipped = clip_shards(cut(values, places), limit)
    squares = sum(Fraction(value) ** 2 for shard in clipped for value in shard)
    u = Fraction(1, 2**53)
    largest = max(abs(Fraction(value)) for shard in clipped for value in shard)
    # sqrt(n) is replaced by the next integer, so that the right side stays rational.
    slack = (math.isqrt(len(values)) + 1) * (Fraction(1, 2 * 10**12) + largest * u)
    assert squares <= (Fraction(limit) * (1 + 4 * u) + slack) ** 2


@settings(deadline=None)
@given(st.lists(ordinary, max_size=40), st.lists(st.integers(0, 100), max_size=4), st.floats(0, 1000))
def test_clipping_twice_agrees_with_once_within_1e_12(values, places, limit) -> None:
    once = clip_shards(cut(values, places), limit)
    twice = clip_shards(once, limit)
    for first, second in zip(flat(once), flat(twice), strict=True):
        # Past 1e3 the rounding to float64 is coarser than 1e-12, so the bound is relative there.
        assert abs(Fraction(first) - Fraction(second)) <= Fraction(1, 10**12) * max(1, abs(Fraction(first)))


@settings(deadline=None)
@given(st.lists(numbers, max_size=20), limits)
def test_layout_and_signs_are_kept_and_nothing_grows(values, limit) -> None:
    shards = cut(values, [3, 5])
    clipped = clip_shards(shards, limit)
    assert [len(shard) for shard in clipped] == [len(shard) for shard in shards]
    for old, new in zip(flat(shards), flat(clipped), strict=True):
        assert old * new >= 0
        assert abs(new) <= abs(old) + 5.0000001e-13


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=20), st.floats(min_value=0, allow_nan=False))
def test_the_factor_is_one_exactly_when_the_norm_is_within_the_limit(values, limit) -> None:
    squares = ExactSum.of_squares(values)
    factor = factor_of_sum(squares, limit)
    assert 0 <= factor <= 1
    assert (factor == 1) == (squares.root() <= limit)
