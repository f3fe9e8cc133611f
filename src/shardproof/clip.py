"""The rule on plain Python lists; the reference that judges every back end.

Given disjoint gradient shards and a nonnegative limit, every value is multiplied by
min(1, limit / global L2 norm); a zero norm uses factor one. Standard library only.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Sequence

from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.sums import ExactSum

DECIMALS = 12


def global_norm(shards: Sequence[Sequence[float]]) -> float:
    """Return the L2 norm over all values of all shards.

    norm = sqrt(sum of value**2), the float64 nearest to the root of the *exact* sum: the same bits for every
    partition and order of the same values. No square overflows or underflows.

    Args:
        shards: one sequence of finite ints or floats for each rank; shards may be empty. Not changed.

    Returns:
        The norm, unrounded; 0.0 for no values; inf when it exceeds the largest float64.

    Raises:
        InvalidTypeError: a shard is not a sequence or a value is not a number (bool included).
        InvalidValueError: a value is NaN, infinite or outside float64's range.

    >>> global_norm([[3, 0], [0, 4]])
    5.0
    >>> global_norm([[3e200], [4e200]])
    5e+200
    """
    return _exact_sum(_checked_shards(shards)).root()


def clip_factor(norm: float, limit: float | None) -> float:
    """Return min(1, limit / norm): one float64 division, no epsilon; one when the norm is zero.

    Args:
        norm: a global norm, finite and >= 0.
        limit: the largest norm allowed, >= 0; inf and None mean no limit.

    Returns:
        The factor, unrounded, in [0, 1]; exactly 1.0 when norm <= limit.

    Raises:
        InvalidTypeError: norm or limit is not a number.
        InvalidValueError: norm is negative, NaN or infinite (no factor follows from it); limit is negative
            or NaN.

    >>> clip_factor(5.0, 2)
    0.4
    >>> clip_factor(0.0, 0)
    1.0
    """
    norm, limit = _checked_norm(norm), checked_limit(limit)
    return 1.0 if norm <= limit else limit / norm


def clip_shards(shards: Sequence[Sequence[float]], limit: float | None) -> list[list[float]]:
    """Return the same shard layout, scaled by min(1, limit / global L2 norm), rounded to 12 decimals.

    result = round(float64(value) * factor, 12); where the factor is one, round(value, 12): ints stay ints.
    The factor comes from the exact sum of squares, so it is right even where the norm itself exceeds float64.

    Args:
        shards: one sequence of finite ints or floats for each rank; shards may be empty. Not changed.
        limit: the largest norm allowed, >= 0; inf and None mean no limit.

    Returns:
        New lists, one for each shard.

    Raises:
        InvalidTypeError: a shard is not a sequence, or a value or the limit is not a number (bool included).
        InvalidValueError: a value is NaN, infinite or outside float64's range; the limit is negative or NaN.

    >>> clip_shards([[3, 0], [0, 4]], 2)
    [[1.2, 0.0], [0.0, 1.6]]
    >>> clip_shards([[1], [1]], 2)
    [[1], [1]]
    """
    limit = checked_limit(limit)
    checked = _checked_shards(shards)
    factor = factor_of_sum(_exact_sum(checked), limit)
    if factor == 1.0:
        return [[round(value, DECIMALS) for value in shard] for shard in checked]
    return [[round(float(value) * factor, DECIMALS) for value in shard] for shard in checked]


def factor_of_sum(squares: ExactSum, limit: float) -> float:
    """Return min(1, limit / sqrt(squares)); from the exact sum where the root exceeds the largest float64.

    >>> factor_of_sum(ExactSum.of_squares([3, 4]), 1.0)
    0.2
    """
    norm = squares.root()
    if norm <= limit:
        return 1.0
    return limit / norm if norm < math.inf else squares.ratio_to_root(limit)


def checked_limit(limit: object) -> float:
    """Return `limit` as a float, None as inf; refuse bools, non-numbers, NaN and negative numbers."""
    if limit is None:
        return math.inf
    number = _checked_number(limit, "limit", "a nonnegative number; inf or None for no limit")
    if not number >= 0:
        raise InvalidValueError(f"Expected a limit >= 0, got limit={_shown(limit)}. Pass inf or None for no limit.")
    try:
        # -0.0 + 0.0 is 0.0: a limit of zero, without a sign that it would give to every value.
        return float(number) + 0.0
    except OverflowError:
        return math.inf


def _checked_norm(norm: object) -> float:
    number = _checked_number(norm, "norm", "a finite nonnegative number")
    if not (0 <= number <= sys.float_info.max):
        raise InvalidValueError(
            f"Expected a finite norm >= 0, got norm={_shown(norm)}. No factor follows from it: a "
            "factor of zero or NaN would destroy the gradient. clip_shards takes the factor from the exact sum instead."
        )
    return float(number)


def _checked_shards(shards: object) -> list[list[float]]:
    return [_checked_shard(shard, rank) for rank, shard in enumerate(_checked_sequence(shards, "shards"))]


def _checked_shard(shard: object, rank: int) -> list[float]:
    values = _checked_sequence(shard, f"shard {rank}")
    return [_checked_value(value, rank, index) for index, value in enumerate(values)]


def _checked_sequence(candidate: object, what: str) -> Sequence[object]:
    # A NumPy array is no Sequence by registration but can be read like one, a single number (ndim 0) cannot;
    # text is a Sequence and is never meant.
    array = hasattr(candidate, "__array__") and getattr(candidate, "ndim", 0) > 0
    if isinstance(candidate, (str, bytes, bytearray)) or not (isinstance(candidate, Sequence) or array):
        raise InvalidTypeError(
            f"Expected {what} to be a list or tuple, got {_shown(candidate)} ({type(candidate).__name__})."
        )
    return candidate  # type: ignore[return-value]


def _checked_value(value: object, rank: int, index: int) -> float:
    where = f"shard {rank}, index {index}"
    number = _checked_number(value, where, "an int or a float")
    try:
        finite = math.isfinite(number)
    except OverflowError:
        finite = False
    if not finite:
        raise InvalidValueError(f"Expected a finite value within float64's range at {where}, got {_shown(value)}.")
    return number


def _checked_number(value: object, where: str, wanted: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, numbers.Rational)):
        return float(value)
    raise InvalidTypeError(f"Expected {wanted} at {where}, got {_shown(value)} ({type(value).__name__}).")


def _shown(value: object) -> str:
    # Python refuses to print an int of more than 4300 digits; a wrong argument may also be a whole model.
    try:
        text = repr(value)
    except ValueError:
        text = "an int of more than 4300 digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _exact_sum(shards: list[list[float]]) -> ExactSum:
    return ExactSum.of_squares(value for shard in shards for value in shard)
