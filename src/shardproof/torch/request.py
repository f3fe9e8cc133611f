"""What one call asks for."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shardproof.clip import checked_limit
from shardproof.torch.norms import checked_eps, checked_order


@dataclass(frozen=True)
class Request:
    """What one call asks for; every rank must ask for the same."""

    limit: float
    order: float
    eps: float
    error_if_nonfinite: bool

    def __str__(self) -> str:
        return (
            f"max_norm={self.limit!r}, norm_type={self.order!r}, eps={self.eps!r}, "
            f"error_if_nonfinite={self.error_if_nonfinite}"
        )


def request(max_norm: object, norm_type: object, eps: object, error_if_nonfinite: object) -> Request:
    """Check what a caller asks for; a limit of None means inf.

    Raises InvalidTypeError or InvalidValueError, naming the argument.
    """
    limit = checked_limit(max_norm.item() if isinstance(max_norm, Tensor) else max_norm)
    return Request(limit, checked_order(norm_type), checked_eps(eps), bool(error_if_nonfinite))
