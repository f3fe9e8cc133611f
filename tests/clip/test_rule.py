"""The rule on plain lists: extreme magnitudes, refused input, untouched input."""

from __future__ import annotations

import copy
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from shardproof import (
    InvalidTypeError,
    InvalidValueError,
    ShardproofError,
    clip_factor,
    clip_shards,
    global_norm,
)
from shardproof.clip import checked_limit, factor_of_sum
from shardproof.sums import ExactSum

LARGEST = 1.7976931348623157e308
SMALLEST = 5e-324
HUGE_INT = 10**400
UNPRINTABLE_INT = 10**5000  # Python refuses to print an int of more than 4300 digits


def short(argument: object) -> str:
    """A test id that never prints a value (pytest would print UNPRINTABLE_INT)."""
    return argument.__name__ if isinstance(argument, type) else type(argument).__name__


@pytest.mark.parametrize(
    ("shards", "norm"),
    [
        ([[3e200], [4e200]], 5e200),
        ([[3e-200], [4e-200]], 5e-200),
        ([[3e25], [4e25]], 5e25),
        ([[SMALLEST]], SMALLEST),
        ([[SMALLEST] * 4], 2 * SMALLEST),
        ([[LARGEST]], LARGEST),
        ([[LARGEST, LARGEST]], math.inf),
        ([[1e-200], [1e200]], 1e200),
        ([[2**53 + 1]], float(2**53 + 2)),
        ([], 0.0),
        ([[], []], 0.0),
        ([[-3], (4,)], 5.0),
        ([[-0.0]], 0.0),
        ([np.array([3.0, 0.0]), np.array([4], dtype=np.int32)], 5.0),
    ],
)
def test_norm(shards: list[list[float]], norm: float) -> None:
    assert global_norm(shards) == norm


@pytest.mark.parametrize(
    ("norm", "limit", "factor"),
    [
        (5.0, 2, 0.4),
        (5.0, 5.0, 1.0),
        (5.0, math.nextafter(5.0, 0), math.nextafter(5.0, 0) / 5.0),
        (0.0, 0, 1.0),
        (0.0, 1, 1.0),
        (SMALLEST, 0, 0.0),
        (1.0, 0, 0.0),
        (1.0, -0.0, 0.0),
        (LARGEST, math.inf, 1.0),
        (LARGEST, None, 1.0),
        (LARGEST, HUGE_INT, 1.0),
        (1e-12, 1e-13, 0.1),  # with torch's eps of 1e-6 this would be 1e-7
    ],
)
def test_factor(norm: float, limit: float | None, factor: float) -> None:
    assert clip_factor(norm, limit) == factor


def test_no_epsilon_at_the_limit() -> None:
    assert clip_factor(1.0, 1.0) == 1.0
    assert clip_shards([[1.0]], 1.0) == [[1.0]]


def test_a_finite_gradient_whose_norm_is_inf_is_clipped_all_the_same() -> None:
    shards = [[LARGEST], [LARGEST]]
    assert global_norm(shards) == math.inf
    assert clip_shards(shards, 2.0) == [[round(2 / math.sqrt(2), 12)]] * 2
    assert clip_shards(shards, 0) == [[0.0], [0.0]]
    assert clip_shards(shards, None) == shards
    factor = factor_of_sum(ExactSum.of_squares([LARGEST, LARGEST]), 1e308)
    assert abs(Fraction(factor) ** 2 * 2 * Fraction(LARGEST) ** 2 / Fraction(1e308) ** 2 - 1) < Fraction(1, 2**51)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (math.nan, InvalidValueError),
        (math.inf, InvalidValueError),
        (-math.inf, InvalidValueError),
        (HUGE_INT, InvalidValueError),
        (UNPRINTABLE_INT, InvalidValueError),
        (-UNPRINTABLE_INT, InvalidValueError),
        (np.float32("nan"), InvalidValueError),
        (True, InvalidTypeError),
        (np.True_, InvalidTypeError),
        ("1", InvalidTypeError),
        (None, InvalidTypeError),
        ([1.0], InvalidTypeError),
        (1j, InvalidTypeError),
        (Decimal(1), InvalidTypeError),
        (Fraction(1, 3), InvalidTypeError),
    ],
    ids=short,
)
@pytest.mark.parametrize("call", [global_norm, lambda shards: clip_shards(shards, 1)], ids=["norm", "clip"])
def test_a_refused_value_names_shard_and_index(call: object, value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"shard 1, index 2") as caught:
        call([[1, 2], [3, 4, value]])  # type: ignore[operator]
    assert isinstance(caught.value, ShardproofError)
    assert isinstance(caught.value, ValueError if kind is InvalidValueError else TypeError)


@pytest.mark.parametrize("shard", ["12", b"12", 3, None, {1: 2}, {1.0}, iter([1.0]), 1.5, np.float64(1), np.array(1.0)])
def test_a_shard_that_is_not_a_sequence_is_named(shard: object) -> None:
    with pytest.raises(InvalidTypeError, match="shard 1"):
        global_norm([[1.0], shard])  # type: ignore[list-item]


@pytest.mark.parametrize("shards", ["12", 3, None, {0: [1.0]}, (value for value in [[1.0]])])
def test_shards_must_be_a_sequence(shards: object) -> None:
    with pytest.raises(InvalidTypeError, match="Expected shards to be a list"):
        clip_shards(shards, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        (-1, InvalidValueError),
        (-SMALLEST, InvalidValueError),
        (-math.inf, InvalidValueError),
        (-UNPRINTABLE_INT, InvalidValueError),
        (math.nan, InvalidValueError),
        (True, InvalidTypeError),
        ("1", InvalidTypeError),
        ([1], InvalidTypeError),
        (1j, InvalidTypeError),
    ],
    ids=short,
)
def test_a_refused_limit(limit: object, kind: type[Exception]) -> None:
    for call in (
        lambda: clip_shards([[1.0]], limit),
        lambda: clip_factor(1.0, limit),
        lambda: checked_limit(limit),
    ):
        with pytest.raises(kind, match="limit"):
            call()


@pytest.mark.parametrize(
    ("norm", "kind"),
    [
        (-1.0, InvalidValueError),
        (math.nan, InvalidValueError),
        (math.inf, InvalidValueError),
        (HUGE_INT, InvalidValueError),
        (UNPRINTABLE_INT, InvalidValueError),
        (True, InvalidTypeError),
        ("1", InvalidTypeError),
        (None, InvalidTypeError),
    ],
    ids=short,
)
def test_a_refused_norm(norm: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="norm"):
        clip_factor(norm, 1.0)  # type: ignore[arg-type]


def test_a_refused_value_is_shown_short() -> None:
    with pytest.raises(InvalidTypeError) as caught:
        global_norm(["x" * 10_000])  # type: ignore[list-item]
    assert len(str(caught.value)) < 300


def test_input_is_never_changed_and_never_returned() -> None:
    shards = [[3.0, 0], [4, -0.0], []]
    before = copy.deepcopy(shards)
    for limit in (0, 1, 100, None):
        clipped = clip_shards(shards, limit)
        assert repr(shards) == repr(before)
        assert all(new is not old for new, old in zip(clipped, shards, strict=True))
    global_norm(shards)
    assert repr(shards) == repr(before)


def test_an_array_is_not_changed() -> None:
    array = np.array([3.0, 4.0])
    assert clip_shards([array], 1) == [[0.6, 0.8]]
    assert array.tolist() == [3.0, 4.0]
