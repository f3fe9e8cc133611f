"""What one call asks for."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torch import Tensor

from shardproof.clip import checked_limit
from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.sums.kernels import LARGEST_POWER


@dataclass(frozen=True)
class Request:
    """What one call asks for; every rank must ask for the same.

    `limits`: group -> limit, or one for all under "". `note`: what else ranks must agree on, as text.
    """

    limits: tuple[tuple[str, float], ...]
    order: float
    eps: float
    error_if_nonfinite: bool
    note: str = ""

    def limit(self, group: str) -> float:
        """The limit of one group."""
        found = dict(self.limits)
        return found[group] if group in found else found[EVERY]

    def __str__(self) -> str:
        limit = dict(self.limits) if self.limits[0][0] != EVERY else self.limits[0][1]
        return (
            f"max_norm={limit!r}, norm_type={self.order!r}, eps={self.eps!r}, "
            f"error_if_nonfinite={self.error_if_nonfinite}{self.note}"
        )


EVERY = ""
"""Stands for every group in `Request.limits`."""


def request(
    max_norm: object, norm_type: object, eps: object, error_if_nonfinite: object, groups: Collection[str] | None
) -> Request:
    """Check what a caller asks for; a limit of None means inf, a mapping gives each group its own.

    Raises InvalidTypeError or InvalidValueError, naming the argument.
    """
    return Request(_limits(max_norm, groups), checked_order(norm_type), checked_eps(eps), bool(error_if_nonfinite))


def _limits(max_norm: object, groups: Collection[str] | None) -> tuple[tuple[str, float], ...]:
    if not isinstance(max_norm, Mapping):
        return ((EVERY, checked_limit(max_norm.item() if isinstance(max_norm, Tensor) else max_norm)),)
    if groups is None or set(max_norm) != set(groups):
        raise InvalidValueError(
            f"Expected one limit, or one for each of the groups {list(groups or ())}, got max_norm={max_norm!r}."
        )
    return tuple((group, checked_limit(max_norm[group])) for group in sorted(max_norm))


def checked_order(norm_type: object) -> float:
    """Return a norm order as a float: 1, 2, inf (or the text "inf"), or any p in (0, LARGEST_POWER]."""
    if isinstance(norm_type, str) and norm_type.lower() in ("inf", "infinity", "+inf"):
        return math.inf
    if isinstance(norm_type, bool) or not isinstance(norm_type, numbers.Real):
        raise InvalidTypeError(
            f'Expected norm_type to be a positive number or "inf", got {norm_type!r} ({type(norm_type).__name__}).'
        )
    order = float(norm_type)
    if not (0 < order <= LARGEST_POWER or order == math.inf):
        raise InvalidValueError(f"Expected norm_type in (0, {LARGEST_POWER:g}] or inf, got norm_type={norm_type!r}.")
    return order


def checked_eps(eps: object) -> float:
    """Return eps as a float; it is added to the norm before dividing, 0 by default."""
    if isinstance(eps, bool) or not isinstance(eps, numbers.Real) or not 0 <= float(eps) < math.inf:
        raise InvalidValueError(f"Expected eps to be a finite number >= 0, got eps={eps!r}.")
    return float(eps)
