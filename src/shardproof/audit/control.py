"""The control: a clip that is right because each rank is told everything, run first in every layout.

It also uses every group of the layout once, so that a broken back end shows here and not on a subject.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shardproof.audit.context import Context
from shardproof.audit.orders import norm_of_order
from shardproof.clip import clip_factor

if TYPE_CHECKING:
    import torch

_told: dict[str, tuple[float, ...]] = {}


def tell(gradients: dict[str, tuple[float, ...]]) -> None:
    """Give this rank the whole gradient of the next call."""
    _told.clear()
    _told.update(gradients)


def clip(params: list[torch.Tensor], max_norm: float, ctx: Context) -> float:
    """Scale this rank's slices by min(1, limit / norm of the whole gradient); no sum over ranks is used."""
    import torch

    from shardproof.audit.layouts.build import local

    _use_every_group(ctx)
    values = [value for row in _told.values() for value in row]
    if not all(map(math.isfinite, values)):
        return math.nan if any(map(math.isnan, values)) else math.inf
    norm = norm_of_order(values, ctx.norm_type)
    factor = clip_factor(norm, max_norm)
    for parameter in params:
        if factor < 1.0 and parameter.grad is not None:
            part = local(parameter.grad)
            part.copy_((part.to(torch.float64) * factor).to(part.dtype))
    return norm


def _use_every_group(ctx: Context) -> None:
    import torch
    import torch.distributed as dist

    for group in [None, *ctx.groups.values()]:
        ones = torch.ones((), dtype=torch.int64)
        dist.all_reduce(ones, group=group)
        if int(ones) != dist.get_world_size(group):
            raise RuntimeError(f"Expected a sum of {dist.get_world_size(group)} ones over the group, got {int(ones)}.")
