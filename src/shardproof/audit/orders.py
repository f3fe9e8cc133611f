"""The norm of a whole gradient for any order; the 2-norm is the rule's own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shardproof.clip import global_norm
from shardproof.errors import InvalidValueError


def norm_of_order(values: Sequence[float], order: float = 2.0) -> float:
    """Return (sum of |value|**order)**(1 / order), or the largest |value| for inf.

    The 2-norm is the float64 nearest to the exact one, 1 and inf too; other orders are computed with scaled powers
    and an exact sum of them, and are right to a few units in the last place.

    >>> norm_of_order([3.0, -4.0]), norm_of_order([3.0, -4.0], 1), norm_of_order([3.0, -4.0], math.inf)
    (5.0, 7.0, 4.0)

    Args:
        values: finite numbers.
        order: in (0, inf].

    Raises:
        InvalidValueError: the order is zero, negative or NaN.
    """
    checked_order(order)
    if order == 2:
        return global_norm([values])
    sizes = [abs(value) for value in values]
    largest = max(sizes, default=0.0)
    if order == math.inf or largest == 0:
        return largest
    if order == 1:
        return math.fsum(sizes)
    return float(largest * math.fsum((size / largest) ** order for size in sizes) ** (1 / order))


def checked_order(order: float) -> float:
    """The order itself; raises InvalidValueError where there is no norm of that order."""
    if not order > 0:
        raise InvalidValueError(f"Expected the order of a norm, a number above zero or inf, got norm_type={order!r}.")
    return order
