"""The general p-norm: a power of two that all ranks agree on keeps |value|**p inside float64.

Error. A term is pow(|value| x 2**-exponent, p) in float64, off by at most 4 units in the last place (what the
libraries behind Python and NumPy promise at worst). Terms are nonnegative and their sum is exact, so the sum
is off by at most 4 x 2**-52 of itself, plus 2**-1074 for each term that underflows, where the sum is at least
1 unless all values are zero (p > 1). The root divides the relative error by p and adds 4 units of its own.
"""

from __future__ import annotations

import math
from typing import Final

from shardproof.errors import InvalidValueError
from shardproof.sums.accumulator import ExactSum

LARGEST_POWER: Final = 512.0


def checked_power(p: float) -> float:
    """Return `p`; refuse what is not in (0, LARGEST_POWER]."""
    if not 0 < p <= LARGEST_POWER:
        raise InvalidValueError(
            f"Expected a norm order p in (0, {LARGEST_POWER:g}], got p={p!r}. "
            "Orders 1, 2 and inf have functions of their own; a larger p is inf in all but name."
        )
    return p


def power_exponent(p: float, largest: float) -> int:
    """Return the exponent e for `powers`, from the largest magnitude over *all* ranks.

    For p > 1: floor(log2(largest)), so that the largest term lies in [1, 2**p) and no term overflows.
    For p <= 1: 0, since |value|**p can neither overflow nor underflow.

    >>> power_exponent(3.0, 6e200)
    666
    >>> power_exponent(0.5, 6e200)
    0
    """
    checked_power(p)
    return math.frexp(largest)[1] - 1 if p > 1 and largest > 0 else 0


def norm_of_powers(total: int, p: float, exponent: int) -> float:
    """Return (total x 2**GRID_EXPONENT)**(1 / p) x 2**exponent; inf above the largest float64.

    >>> norm_of_powers(ExactSum.of_magnitudes([2.0**3]).total, 3.0, 0)
    2.0
    """
    try:
        return math.ldexp(ExactSum(total).value() ** (1 / checked_power(p)), exponent)
    except OverflowError:
        return math.inf
