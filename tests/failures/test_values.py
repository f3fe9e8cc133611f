"""Plain values: the judge and the rendered program compare the same way, and literals read back as they were."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.failures.render import TAIL
from shardproof.failures.values import literal, plain, same

PROGRAM: dict = {}
exec(TAIL, PROGRAM)

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=4)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
)


@settings(deadline=None, max_examples=150)
@given(values, values)
def test_the_program_compares_as_the_judge_does(left, right):
    """Two definitions, one in the rendered text and one here, agree; equality is reflexive after JSON."""
    assert PROGRAM["plain"](left) == plain(left)
    assert PROGRAM["same"](plain(left), plain(right)) == same(plain(left), plain(right))
    assert same(plain(left), plain(left))
    assert same(json.loads(json.dumps(plain(left), allow_nan=False)), plain(left))


@settings(deadline=None, max_examples=150)
@given(values)
def test_a_literal_reads_back_as_the_value(value):
    """The source text evaluates to the same value, of the same kinds, and is ASCII."""
    text = literal(value)
    assert text.isascii()
    assert repr(eval(text)) == repr(value)


def test_numbers_bools_and_what_is_no_value():
    """0 is 0.0 and -0.0, True is no number, a list is not its prefix, a set is no plain value."""
    assert same([0, 0.0, {"a": 1}], [-0.0, 0, {"a": 1.0}])
    for left, right in ((True, 1), (0, False), ([1], [1, 2]), ({"a": 1}, {"b": 1}), ("1", 1), (None, 0), ([], {})):
        assert not same(left, right)
        assert not same(right, left)
    assert same(plain(math.nan), plain(math.nan))
    for value in ({1}, {1: 2}, object(), b"", 1j):
        with pytest.raises(TypeError):
            plain(value)
        with pytest.raises(TypeError):
            literal(value)
    with pytest.raises(TypeError, match="tuples inside"):
        literal([(1,)])
