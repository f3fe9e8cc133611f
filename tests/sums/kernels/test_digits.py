"""The lemmas of docs/exact-sums.md, in float64 and float32, against fractions."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

if find_spec("numba") is None:
    pytest.skip("numba is not installed, and with it llvmlite", allow_module_level=True)

from shardproof.sums.grid import GRID_BITS, GRID_EXPONENT, MAX_RANKS, from_limbs, to_limbs
from shardproof.sums.kernels import Format
from shardproof.sums.kernels.emit import F32, F64
from shardproof.sums.kernels.sweeps import BUFFER_BYTES, CARRY_AFTER, CHUNK_BYTES
from shardproof.sums.kernels.vectors import MIDDLE, SCHEMES, Digits
from shardproof.sums.kernels.windows import bottom, lowest_pattern, numbers_of, pattern_above, top

KINDS = {"double": (Digits(F64, 4), np.float64, "=d", "=q"), "single": (Digits(F32, 4), np.float32, "=f", "=i")}


def pattern(number: np.floating, floats: str, integers: str) -> int:
    return struct.unpack(integers, struct.pack(floats, float(number)))[0]


def magic(digits: Digits, kind, window: int, level: int):
    return kind(1.5 * 2.0 ** (window - digits.step * level))


@settings(deadline=None, max_examples=300)
@given(
    kind=st.sampled_from(list(KINDS)),
    mantissa=st.one_of(st.integers(0, (1 << 53) - 1), st.sampled_from([0, 1, (1 << 53) - 1, 1 << 52, 3 << 51])),
    exponent=st.integers(-140, 0),
    window=st.integers(-20, 20),
)
def test_a_term_is_the_sum_of_its_digits(kind, mantissa, exponent, window):
    """Every rest is exact, every digit is what the bit patterns say, and the last rest is zero within the span."""
    digits, number, floats, integers = KINDS[kind]
    mantissa >>= 53 - digits.width - 1
    term = number(math.ldexp(mantissa, exponent + window - digits.width - 2))
    assume(Fraction(float(term)) < Fraction(2) ** (window - 1))
    lowest = window - digits.span
    exact = Fraction(float(term))
    assume(exact % Fraction(2) ** lowest == 0)
    rest, total = term, Fraction(0)
    for level in range(digits.levels):
        weight = magic(digits, number, window, level)
        rounded = rest + weight
        digit = pattern(rounded, floats, integers) - pattern(weight, floats, integers)
        assert abs(digit) <= 1 << (digits.width - 1)
        assert level > 0 or digit >= 0
        total += digit * Fraction(2) ** (window - digits.step * level - digits.width)
        left = rest - (rounded - weight)
        assert Fraction(float(left)) == exact - total
        rest = left
    assert total == exact


@pytest.mark.parametrize("kind", list(KINDS))
def test_two_magic_numbers_fit_one_float(kind):
    digits, number, _, _ = KINDS[kind]
    for level in range(digits.levels - 1):
        pair = [magic(digits, number, 10, level), magic(digits, number, 10, level + 1)]
        assert Fraction(float(pair[0] + pair[1])) == Fraction(float(pair[0])) + Fraction(float(pair[1]))


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: f"{scheme.format}-{scheme.order}")
def test_no_lane_overflows_in_a_chunk_of_the_largest_digits(scheme):
    n = numbers_of(scheme)
    terms = 2 if scheme.format is Format.FLOAT64 and scheme.order == 2 else 1
    per_lane = terms * n.chunk // scheme.digits.integers.count
    largest = per_lane << (n.width - 1)
    # Digits of the first level are read as unsigned where lanes have 32 bits; later ones are at most half as large.
    assert largest < 1 << (scheme.digits.bits if scheme.digits.bits == 32 else 63)
    assert largest // 2 < 1 << (scheme.digits.bits - 1)
    assert n.chunk * n.size <= CHUNK_BYTES < BUFFER_BYTES


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: f"{scheme.format}-{scheme.order}")
def test_what_add_is_given_stays_inside_the_bounds_that_it_states(scheme):
    n, lanes = numbers_of(scheme), scheme.digits.integers.count
    low = lanes << (32 if scheme.digits.bits == 64 else 31)
    high = (n.chunk << n.width) >> 32
    assert low <= 1 << 36
    assert high <= 1 << 33
    assert CARRY_AFTER << 34 < 1 << 63


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: f"{scheme.format}-{scheme.order}")
def test_windows_follow_from_patterns_and_back(scheme):
    n = numbers_of(scheme)
    fields = range(n.special >> n.mantissa)
    for field in fields:
        low, high = field << n.mantissa, ((field + 1) << n.mantissa) - 1
        largest = Fraction(high if field == 0 else (1 << n.mantissa) | (high & ((1 << n.mantissa) - 1)))
        unit = Fraction(2) ** (max(field, 1) - n.bias - n.mantissa)
        assert (largest * unit) ** n.order < Fraction(2) ** (top(n, high) - 1)
        assert unit**n.order == Fraction(2) ** bottom(n, low)
        assert pattern_above(n, top(n, high)) > high
        assert lowest_pattern(n, bottom(n, low)) <= max(low, 1)
        assert pattern_above(n, top(n, high) - 1) <= max(low, 2 << n.mantissa)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: f"{scheme.format}-{scheme.order}")
def test_every_usable_window_computes_with_normal_floats(scheme):
    """So that a CPU that flushes subnormals to zero, or traps on them, changes nothing."""
    n = numbers_of(scheme)
    for pattern_ in (n.usable_low, n.usable_high - 1):
        window = min(max(top(n, pattern_), n.lowest), n.highest)
        if scheme.digits.element is F32:
            k = (MIDDLE[n.order] - window) >> (n.order - 1)
            assert -126 <= k <= 127
            window += n.order * k
        assert window - n.span > -scheme.digits.bias
        assert window < scheme.digits.bias
    assert n.fast_lowest - n.span > -scheme.digits.bias
    assert n.fast_highest < scheme.digits.bias


def test_the_grid_holds_what_docs_promise():
    """2**96 squares of the largest float64, and the smallest square as a whole number of units."""
    largest = Fraction(math.nextafter(math.inf, 0)) ** 2
    assert (largest * 2**96) / Fraction(2) ** GRID_EXPONENT < 2**GRID_BITS
    assert Fraction(5e-324) ** 2 / Fraction(2) ** GRID_EXPONENT == 2**28


def test_as_many_ranks_as_promised_add_their_limbs_without_overflow():
    """All limbs full on every rank: what a SUM all-reduce of int64 gives, by multiplication."""
    full = (1 << GRID_BITS) - 1
    limbs = np.array(to_limbs(full), np.int64)
    assert int(limbs.max()) * MAX_RANKS < 1 << 63
    summed = limbs * np.int64(MAX_RANKS)
    assert (summed > 0).all()
    assert from_limbs(summed.tolist()) == full * MAX_RANKS
    with pytest.raises(OverflowError, match="on the grid"):
        to_limbs(full + 1)
