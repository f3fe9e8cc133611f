"""One body of tests for every kernel; fractions.Fraction judges."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sums.kernels.memory import Pieces, check_scale, check_tally, counted, expected_tally, value_of
from tests.sums.kernels.patterns import corner_patterns, random_patterns, streams, within

from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.sums import ExactSum
from shardproof.sums.kernels import (
    Format,
    Kernel,
    Largest,
    Tally,
    best_kernel,
    largest,
    load_kernel,
    norm_of_powers,
    power_exponent,
    powers,
    scale,
    tally,
)

KERNELS = [
    "python",
    "numpy",
    pytest.param("numba", marks=pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")),
]
FACTORS = [0.0, 1.0, 0.5, 0.1, 1 / 3, 0.999, 1 - 2**-53, 1e-3, 2**-30, 1e-38, 5e-324]


@pytest.fixture(params=KERNELS, scope="module")
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return load_kernel(request.param)


@pytest.fixture(params=list(Format), scope="module")
def format(request: pytest.FixtureRequest) -> Format:
    return request.param


# ---- tally


@pytest.mark.parametrize("order", [1, 2])
def test_corners_are_summed_exactly(kernel, format, order):
    pieces = Pieces(format, [[pattern] for pattern in corner_patterns(format)])
    check_tally(kernel, pieces, order)


@pytest.mark.parametrize("pattern_bits", [8, 16])
def test_every_pattern_of_a_short_format(kernel, pattern_bits):
    for format in Format:
        if 8 * format.bits.size == pattern_bits:
            pieces = Pieces(format, [range(1 << pattern_bits)])
            check_tally(kernel, pieces, 2)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", list(streams(Format.FLOAT32)))
def test_long_streams(kernel, format, name, order):
    pieces = Pieces(format, [streams(format)[name]])
    check_tally(kernel, pieces, order, 2)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 1023, 1025, 2047, 2048, 2049, 16385])
def test_odd_sizes(kernel, format, count):
    pieces = Pieces(format, [within(format, count, 1, 5)])
    check_tally(kernel, pieces, 2)


def test_many_small_pieces_some_of_them_empty(kernel, format):
    generator = random.Random(5)
    pieces = Pieces(format, [random_patterns(format, generator.choice([0, 1, 2, 7, 40]), i) for i in range(400)])
    check_tally(kernel, pieces, 2, 3)


def test_no_pieces_and_an_empty_piece_without_an_address(kernel, format):
    assert tally(kernel, format, [], [], 2) == Tally()
    assert tally(kernel, format, [0, 0], [0, 0], 2) == Tally()
    assert largest(kernel, format, [0], [0]) == Largest()
    assert powers(kernel, format, [0], [0], 3.0, 0) == Tally()
    scale(kernel, format, [0], [0], 0.5)


@pytest.mark.parametrize("offset", range(1, 8))
def test_any_alignment(kernel, format, offset):
    pieces = Pieces(format, [random_patterns(format, 300, offset), random_patterns(format, 7)], offset)
    check_tally(kernel, pieces, 2)
    check_scale(kernel, pieces, 0.3)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_bit_patterns_in_any_pieces(kernel, data):
    format = data.draw(st.sampled_from(list(Format)))
    pattern = st.integers(0, (1 << (8 * format.bits.size)) - 1)
    pieces = Pieces(
        format, data.draw(st.lists(st.lists(pattern, max_size=40), max_size=6)), data.draw(st.integers(0, 7))
    )
    order, threads = data.draw(st.sampled_from([1, 2])), data.draw(st.integers(1, 4))
    check_tally(kernel, pieces, order, threads)


def test_a_sum_of_squares_far_outside_float64(kernel):
    huge, tiny = 0x7FEFFFFFFFFFFFFF, 1
    pieces = Pieces(Format.FLOAT64, [[huge, tiny, huge]])
    found = ExactSum(tally(kernel, *pieces.arguments, 2).total)
    assert found.fraction() == 2 * Fraction(value_of(Format.FLOAT64, huge)) ** 2 + Fraction(2) ** -2148


@pytest.mark.parametrize("format", [Format.FLOAT64, Format.FLOAT32, Format.BFLOAT16, Format.FLOAT16])
def test_a_window_full_to_the_brim_at_every_shift_of_a_limb(kernel, format):
    # Mantissas of ones fill the highest digit of the window; one tiny value takes away all slack above it.
    bits = format.bits
    middle = min(bits.bias + 20, (1 << bits.exponent) - 2)
    for field in range(max(middle - 33, 1), middle):
        full = (field << bits.mantissa) | ((1 << bits.mantissa) - 1)
        count = 600 if kernel is load_kernel("python") else 8190
        pieces = Pieces(format, [[full] * count, [max(field - 60, 1) << bits.mantissa, full]])
        check_tally(kernel, pieces, 2)


# ---- largest


@pytest.mark.parametrize("name", ["corners", *streams(Format.FLOAT32)])
def test_largest_is_the_largest_finite_magnitude(kernel, format, name):
    patterns = corner_patterns(format) if name == "corners" else streams(format)[name]
    pieces = Pieces(format, [patterns[:50], patterns[50:]], offset=3)
    finite = [abs(value) for value, _ in counted(format, pieces.pieces) if isinstance(value, Fraction)]
    judge = expected_tally(format, pieces.pieces, 1)
    expected = Largest(float(max(finite, default=Fraction(0))), judge.nans, judge.infs)
    assert largest(kernel, *pieces.arguments, threads=2) == expected


# ---- powers


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 3.0, 7.0, 512.0])
def test_powers_stay_inside_the_stated_error(kernel, format, p):
    pieces = Pieces(format, [within(format, 3000, 0, 3), corner_patterns(format)])
    exponent = power_exponent(p, largest(kernel, *pieces.arguments).magnitude)
    found = powers(kernel, *pieces.arguments, p, exponent)
    values = counted(format, pieces.pieces)
    # The judge's own powers are off by up to as much as those it judges.
    judge = sum(
        Fraction(math.pow(math.ldexp(abs(float(v)), -exponent), p)) * times
        for v, times in values
        if isinstance(v, Fraction)
    )
    assert abs(ExactSum(found.total).fraction() - judge) <= 8 * Fraction(2) ** -52 * judge
    expected = expected_tally(format, pieces.pieces, 1)
    assert (found.nans, found.infs) == (expected.nans, expected.infs)


def test_a_whole_power_of_small_integers_is_exact(kernel):
    pieces = Pieces(Format.FLOAT32, [[0x40400000, 0xC0800000, 0x40A00000]])  # 3, -4, 5
    exponent = power_exponent(3.0, 5.0)
    found = powers(kernel, *pieces.arguments, 3.0, exponent)
    assert ExactSum(found.total).fraction() == Fraction(216, 4**3)
    assert norm_of_powers(found.total, 3.0, exponent) == 6.0


def test_powers_of_the_largest_values_do_not_overflow(kernel):
    pieces = Pieces(Format.FLOAT64, [[0x7FEFFFFFFFFFFFFF], [0x7FDFFFFFFFFFFFFF]])
    exponent = power_exponent(100.0, largest(kernel, *pieces.arguments).magnitude)
    found = powers(kernel, *pieces.arguments, 100.0, exponent)
    assert norm_of_powers(found.total, 100.0, exponent) == pytest.approx(1.7976931348623157e308, rel=1e-14)


def test_an_exponent_that_lets_powers_overflow_is_refused(kernel):
    pieces = Pieces(Format.FLOAT32, [[0x7F7FFFFF]])
    with pytest.raises(InvalidValueError, match="power_exponent"):
        powers(kernel, *pieces.arguments, 100.0, 0)


# ---- scale


@pytest.mark.parametrize("factor", FACTORS)
def test_scaled_corners_and_random_patterns(kernel, format, factor):
    pieces = Pieces(format, [corner_patterns(format), [], random_patterns(format, 3000)], offset=5)
    check_scale(kernel, pieces, factor, threads=2)


@pytest.mark.parametrize("factor", [1 / 3, 0.7])
@pytest.mark.parametrize("pattern_bits", [8, 16])
def test_every_pattern_of_a_short_format_scaled(kernel, pattern_bits, factor):
    for format in Format:
        if 8 * format.bits.size == pattern_bits:
            pieces = Pieces(format, [range(1 << pattern_bits)])
            check_scale(kernel, pieces, factor)


def test_rounding_to_bfloat16_happens_once(kernel):
    # 1.0 x factor lies just above the tie between 1 and 1 + 2**-7 halved: rounding to float32 first
    # would land on the tie and then fall to even, below.
    factor = 0.5 + 2**-9 + 2**-40
    pieces = Pieces(Format.BFLOAT16, [[0x3F80]])
    scale(kernel, *pieces.arguments, factor)
    assert pieces.read() == [[0x3F01]]


def test_rounding_to_float16_happens_once(kernel):
    factor = 0.5 + 2**-12 + 2**-40
    pieces = Pieces(Format.FLOAT16, [[0x3C00]])
    scale(kernel, *pieces.arguments, factor)
    assert pieces.read() == [[0x3801]]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_bit_patterns_scaled(kernel, data):
    format = data.draw(st.sampled_from(list(Format)))
    pattern = st.integers(0, (1 << (8 * format.bits.size)) - 1)
    pieces = Pieces(
        format, data.draw(st.lists(st.lists(pattern, max_size=40), max_size=6)), data.draw(st.integers(0, 7))
    )
    factor = data.draw(st.floats(0, 1))
    check_scale(kernel, pieces, factor, data.draw(st.integers(1, 4)))


# ---- arguments


def test_arguments_are_checked(kernel):
    memory = Pieces(Format.FLOAT32, [[0]])
    with pytest.raises(InvalidTypeError, match="Expected a Format"):
        tally(kernel, "float32", memory.addresses, [1], 2)
    with pytest.raises(InvalidValueError, match="count for each address"):
        tally(kernel, Format.FLOAT32, memory.addresses, [], 2)
    with pytest.raises(InvalidValueError, match="counts >= 0"):
        tally(kernel, Format.FLOAT32, memory.addresses, [-1], 2)
    with pytest.raises(InvalidValueError, match="order 1 or 2"):
        tally(kernel, Format.FLOAT32, memory.addresses, [1], 3)
    with pytest.raises(InvalidValueError, match="threads >= 1"):
        tally(kernel, Format.FLOAT32, memory.addresses, [1], 2, threads=0)
    for p in (0.0, -1.0, 513.0, math.nan, math.inf):
        with pytest.raises(InvalidValueError, match="norm order p"):
            powers(kernel, Format.FLOAT32, memory.addresses, [1], p, 0)
    for factor in (-0.5, 1.5, math.nan):
        with pytest.raises(InvalidValueError, match="factor in"):
            scale(kernel, Format.FLOAT32, memory.addresses, [1], factor)


def test_an_unknown_kernel_is_refused():
    with pytest.raises(InvalidValueError, match="Expected a kernel of"):
        load_kernel("cuda")


def test_the_best_kernel_is_numba_where_it_is_installed():
    assert best_kernel() is load_kernel("numba" if find_spec("numba") else "numpy")
