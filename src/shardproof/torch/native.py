"""accumulate="native": sums of powers by torch's own reductions, for GPUs on which float64 is slow.

Each tensor is reduced in float32 (float64 for float64 tensors), tensors and ranks in float64. The last bits depend on
the layout, and squares that leave float32 make the norm infinite or zero, as with torch's own clip.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from shardproof.torch.buckets import Buckets
from shardproof.torch.norms import Found, of_value
from shardproof.torch.request import Request


def sums_of(buckets: Sequence[Sequence[Tensor]], order: int, device: torch.device) -> Tensor:
    """The sum of |value|**order of each bucket, float64 on `device`, order 1 or 2."""
    zero = torch.zeros((), dtype=torch.float64, device=device)
    sums = [_sum(tensors, order, device) if tensors else zero for tensors in buckets]
    return torch.stack(sums) if sums else zero.expand(0)


def _sum(tensors: Sequence[Tensor], order: int, device: torch.device) -> Tensor:
    norms = [norm.to(device, torch.float64) for group in _by_dtype(tensors) for norm in _norms(group, order)]
    return torch.stack(norms).pow(order).sum()


def _by_dtype(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    kinds = dict.fromkeys((each.device, each.dtype) for each in tensors)
    return [[each for each in tensors if (each.device, each.dtype) == kind] for kind in kinds]


def _norms(tensors: Sequence[Tensor], order: int) -> Sequence[Tensor]:
    wide = torch.float64 if tensors[0].dtype in (torch.float64, torch.complex128) else torch.float32
    if tensors[0].is_complex():
        tensors = [torch.hypot(*torch.view_as_real(each).to(wide).unbind(-1)) for each in tensors]
    if tensors[0].itemsize == 1:
        # torch has no reduction of float8.
        tensors = [each.to(wide) for each in tensors]
    return torch._foreach_norm(list(tensors), order, dtype=wide)


def counts_of(sums: Tensor) -> Tensor:
    """How many sums are NaN and how many infinite, int64 [2]: what stands for the non-finite values."""
    return torch.stack([sums.isnan().sum(), sums.isinf().sum()])


def found_of(sums: Sequence[float], made: Buckets, asked: Request) -> Found:
    """Norms and factors from sums over all ranks, on the host."""

    def norm(total: float) -> float:
        return total**0.5 if asked.order == 2 else total

    groups = {
        group: of_value(norm(sum(sums[number] for number in numbers)), asked.limit(group), asked.eps)
        for group, numbers in made.groups.items()
    }
    return Found(groups, [norm(each) for each in sums])


def norms_and_factors(
    sums: Tensor, header: Tensor, ranks: int, limits: Tensor, eps: float, order: int
) -> tuple[Tensor, Tensor]:
    """Norm and factor from sums over all ranks, decided on the device; arguments and results as the Triton kernel's."""
    norms = sums.sqrt() if order == 2 else sums
    void = ranks * header[1] - header[0] * header[0] | header[2] | header[3] | header[4] | header[5]
    norms = torch.where(header[7] > 0, torch.inf, norms)
    norms = torch.where((void != 0) | (header[6] > 0), torch.nan, norms)
    bound = norms + eps
    over = norms.isfinite() & (bound > limits)
    return norms, torch.where(over, limits, 1.0) / torch.where(over, bound, 1.0)
