"""From exact sums to a norm and the one factor, for every norm order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from shardproof.clip import factor_of_sum
from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.sums import ExactSum
from shardproof.sums.kernels import LARGEST_POWER, norm_of_powers


@dataclass(frozen=True)
class Norm:
    """A global norm and the factor that keeps it within a limit; `factor` is exactly 1.0 when it does already."""

    norm: float
    factor: float


def checked_order(norm_type: object) -> float:
    """Return a norm order as a float: 1, 2, inf (or the text "inf"), or any p in (0, LARGEST_POWER]."""
    if isinstance(norm_type, str) and norm_type.lower() in ("inf", "infinity", "+inf"):
        return math.inf
    if isinstance(norm_type, bool) or not isinstance(norm_type, (int, float)):
        raise InvalidTypeError(
            f'Expected norm_type to be a positive number or "inf", got {norm_type!r} ({type(norm_type).__name__}).'
        )
    order = float(norm_type)
    if not (0 < order <= LARGEST_POWER or order == math.inf):
        raise InvalidValueError(f"Expected norm_type in (0, {LARGEST_POWER:g}] or inf, got norm_type={norm_type!r}.")
    return order


def checked_eps(eps: object) -> float:
    """Return eps as a float; it is added to the norm before dividing, 0 by default."""
    if isinstance(eps, bool) or not isinstance(eps, (int, float)) or not 0 <= eps < math.inf:
        raise InvalidValueError(f"Expected eps to be a finite number >= 0, got eps={eps!r}.")
    return float(eps)


def of_sum(total: int, order: float, limit: float, eps: float) -> Norm:
    """Norm and factor from the exact sum of |value|**order, order 1 or 2.

    The factor is limit / norm, or min(1, limit / (norm + eps)) with an eps; where the norm exceeds float64 it
    comes from the exact sum.
    """
    exact = ExactSum(total)
    norm = exact.value() if order == 1 else exact.root()
    if norm < math.inf:
        return of_value(norm, limit, eps)
    if order == 2:
        return Norm(norm, factor_of_sum(exact, limit))
    return Norm(norm, 1.0 if limit == math.inf else float(Fraction(limit) / exact.fraction()))


def of_value(norm: float, limit: float, eps: float) -> Norm:
    """Norm and factor from a norm that is known already."""
    if limit == math.inf:
        return Norm(norm, 1.0)
    if eps:
        return Norm(norm, min(1.0, limit / (norm + eps)))
    return Norm(norm, 1.0 if norm <= limit else limit / norm)


def of_powers(total: int, order: float, exponent: int, limit: float, eps: float) -> Norm:
    """Norm and factor from the exact sum of (|value| x 2**-exponent)**order."""
    norm = norm_of_powers(total, order, exponent)
    if norm < math.inf or limit == math.inf:
        return of_value(norm, limit, eps)
    return Norm(norm, math.ldexp(limit / norm_of_powers(total, order, 0), -exponent))
