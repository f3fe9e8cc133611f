"""Numbers in significant digits and narrow formats, held against struct, decimal and math."""

import decimal
import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.failures.number_formats import root_near, significant, significant_root, stored

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LETTERS = {"float16": ">e", "float32": ">f"}


def packed(value, dtype):
    try:
        return struct.unpack(LETTERS[dtype], struct.pack(LETTERS[dtype], value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


@pytest.mark.parametrize("dtype", LETTERS)
@given(value=FLOATS | st.floats(-70000, 70000) | st.floats(-1e-4, 1e-4))
@settings(deadline=None)
def test_stored_is_what_struct_packs(dtype, value):
    assert stored(Fraction(value), dtype) == packed(value, dtype)


@given(value=st.floats(-(2.0**127), 2.0**127, width=32))
@settings(deadline=None)
def test_bfloat16_is_the_nearest_of_its_neighbours_in_bits(value):
    low = struct.unpack(">I", struct.pack(">f", abs(value)))[0] & 0xFFFF0000
    near = [struct.unpack(">f", struct.pack(">I", bits))[0] for bits in (low, low + 0x10000)]
    found = abs(stored(Fraction(value), "bfloat16"))
    if math.isinf(found):
        assert math.isinf(near[1])
        return
    best = min(abs(Fraction(each) - Fraction(abs(value))) for each in near if math.isfinite(each))
    assert found in near
    assert abs(Fraction(found) - Fraction(abs(value))) == best


@pytest.mark.parametrize(
    ("value", "dtype", "nearest"),
    [
        (Fraction(65519), "float16", 65504.0),
        (Fraction(65520), "float16", math.inf),
        (Fraction(-65520), "float16", -math.inf),
        (Fraction(1, 2**25), "float16", 0.0),
        (Fraction(3, 2**25), "float16", 2.0**-23),
        (Fraction(257), "bfloat16", 256.0),
        (Fraction(259), "bfloat16", 260.0),
        (Fraction(2**24 + 1), "float32", 2.0**24),
        (0, "float32", 0.0),
    ],
)
def test_ties_go_to_even_and_the_range_ends(value, dtype, nearest):
    assert stored(value, dtype) == nearest


@given(value=FLOATS)
@settings(deadline=None)
def test_significant_is_what_decimal_rounds(value):
    with decimal.localcontext(prec=12, rounding=decimal.ROUND_HALF_EVEN, Emin=-400, Emax=400):
        assert significant(Fraction(value)) == float(+decimal.Decimal(value))


@given(top=st.integers(0, 10**30), bottom=st.integers(1, 10**30))
@settings(deadline=None)
def test_a_root_is_near_and_exact_where_it_is_rational(top, bottom):
    value = Fraction(top, bottom)
    assert root_near(value * value) == value
    found = root_near(value)
    assert abs(found * found - value) <= value / 2**190


def test_a_root_in_significant_digits():
    assert significant_root(Fraction(2, 10**100)) == 1.41421356237e-50
    assert significant_root(10**40) == 1e20
    with pytest.raises(ValueError, match="square=-1"):
        root_near(-1)
