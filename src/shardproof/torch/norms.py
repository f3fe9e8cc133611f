"""From exact sums to a norm and the one factor, for every norm order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from shardproof.clip import factor_of_sum
from shardproof.sums import ExactSum
from shardproof.sums.kernels import norm_of_powers
from shardproof.torch.buckets import Buckets
from shardproof.torch.request import Request


@dataclass(frozen=True)
class Norm:
    """A global norm and the factor that keeps it within a limit; `factor` is exactly 1.0 when it does already."""

    norm: float
    factor: float


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


def of_power_sum(total: int, exponent: int, order: float, limit: float, eps: float) -> Norm:
    """Norm and factor from the exact sum of (|value| x 2**-exponent)**order."""
    norm = norm_of_powers(total, order, exponent)
    if norm < math.inf or limit == math.inf:
        return of_value(norm, limit, eps)
    if order < 1:
        # The sum is small, its root is not: the limit's power is divided by the sum instead.
        return Norm(norm, (limit**order / ExactSum(total).value()) ** (1 / order))
    return Norm(norm, math.ldexp(limit / norm_of_powers(total, order, 0), -exponent))


@dataclass(frozen=True)
class Found:
    """Norm and factor of each group, and the norm of each sum by itself.

    `finite`: whether every gradient value is; a norm that is infinite because it exceeds float64 is finite here.
    """

    groups: Mapping[str, Norm]
    sums: Sequence[float]
    finite: bool = True


def not_finite(made: Buckets, norm: float) -> Found:
    """Every norm is NaN or inf and nothing is scaled."""
    return Found({group: Norm(norm, 1.0) for group in made.groups}, [norm] * made.count, finite=False)


def of_sums(totals: Sequence[int], made: Buckets, asked: Request) -> Found:
    """From exact sums of |value|**order, order 1 or 2; a group's sum is the exact sum of its parts."""

    def norm(total: int, limit: float) -> Norm:
        return of_sum(total, asked.order, limit, asked.eps)

    return _found([norm(each, math.inf).norm for each in totals], totals, made, asked, norm)


def of_powers(totals: Sequence[int], exponent: int, made: Buckets, asked: Request) -> Found:
    """From exact sums of float64 powers."""

    def norm(total: int, limit: float) -> Norm:
        return of_power_sum(total, exponent, asked.order, limit, asked.eps)

    return _found([norm(each, math.inf).norm for each in totals], totals, made, asked, norm)


def of_largest(tops: Sequence[float], made: Buckets, asked: Request) -> Found:
    """From largest magnitudes, for the infinity norm."""
    groups = {
        group: of_value(max((tops[number] for number in numbers), default=0.0), asked.limit(group), asked.eps)
        for group, numbers in made.groups.items()
    }
    return Found(groups, tops)


def _found(
    sums: Sequence[float],
    totals: Sequence[int],
    made: Buckets,
    asked: Request,
    norm: Callable[[int, float], Norm],
) -> Found:
    groups = {
        group: norm(sum(totals[number] for number in numbers), asked.limit(group))
        for group, numbers in made.groups.items()
    }
    return Found(groups, sums)
