"""Gradients that are summands: reduce all of them together before anything is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from shardproof.errors import PlacementError
from shardproof.torch.gradients import local_values
from shardproof.torch.naming import is_dtensor
from shardproof.torch.world import World, reduce_over


@dataclass(frozen=True)
class Partial:
    """How one tensor's gradient becomes whole: all-reduce over these groups; `means` tells which divide by their size.

    `dims` are the mesh dims of a DTensor gradient that are partial; empty for a plain tensor.
    """

    groups: tuple[Any, ...]
    means: tuple[bool, ...]
    dtype: torch.dtype
    dims: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{', '.join('mean' if mean else 'sum' for mean in self.means)} of {self.dtype}"


def partial_of(name: str, tensor: Any) -> Partial | None:
    """What the gradient of a DTensor parameter says: which of its mesh dims are partial, where its parameter is not.

    Raises PlacementError when a sum over those dims would not give it the layout of its parameter.
    """
    gradient = tensor.grad
    if not is_dtensor(gradient):
        return None
    summed = summands(gradient)
    if not summed:
        return None
    from torch.distributed.tensor import Replicate

    dims = tuple(dim for dim, _ in summed)
    whole = [Replicate() if dim in dims else each for dim, each in enumerate(gradient.placements)]
    operations = {operation for _, operation in summed}
    if not operations <= {"sum", "avg"} or whole != list(tensor.placements) or gradient.shape != tensor.shape:
        raise PlacementError(
            f"{name}: its gradient lies as {gradient.placements}, which a sum over the partial axes does not turn into "
            f"its parameter's {tensor.placements}. Redistribute it first: "
            "p.grad = p.grad.redistribute(placements=p.placements)."
        )
    groups = tuple(gradient.device_mesh.get_group(dim) for dim in dims)
    return Partial(groups, tuple(operation == "avg" for _, operation in summed), tensor.dtype, dims)


def summands(gradient: Any) -> tuple[tuple[int, str], ...]:
    """The mesh dims on which a DTensor holds summands, and how they become one: sum, avg, max, ..."""
    return tuple(
        (dim, str(getattr(each, "reduce_op", "sum")))
        for dim, each in enumerate(gradient.placements)
        if each.is_partial()
    )


def reduce_together(
    here: World,
    tensors: Sequence[Tensor],
    partials: Sequence[Partial],
    gradient_of: Callable[[Tensor], Any],
) -> None:
    """Sum partial gradients over their groups: one collective for each group and dtype, whatever their number.

    Every rank has to give its tensors in the same order. A rank without a gradient contributes zeros, and gets
    the sum when some other rank had one.
    """
    packs: dict[tuple[tuple[int, ...], torch.dtype, tuple[bool, ...]], list[tuple[Tensor, Partial]]] = {}
    for tensor, partial in zip(tensors, partials, strict=True):
        key = (tuple(id(group) for group in partial.groups), tensor.dtype, partial.means)
        packs.setdefault(key, []).append((tensor, partial))
    for members in packs.values():
        values = [_values(tensor, gradient_of(tensor)) for tensor, _ in members]
        packed = torch.cat([each.reshape(-1) for each in values])
        for group, mean in zip(members[0][1].groups, members[0][1].means, strict=True):
            reduce_over(here, packed, group)
            if mean:
                packed /= dist.get_world_size(group)
        pieces = torch.split(packed, [each.numel() for each in values])
        for (tensor, _), piece, before in zip(members, pieces, values, strict=True):
            _put_back(tensor, piece.reshape(before.shape), gradient_of)


def _values(tensor: Any, gradient: Any) -> Tensor:
    if gradient is None:
        local = tensor._local_tensor if is_dtensor(tensor) else tensor
        return torch.zeros_like(local.detach())
    local = gradient._local_tensor if is_dtensor(gradient) else gradient
    whole: Tensor = local.wait() if type(local) is not Tensor and hasattr(local, "wait") else local.detach()
    return whole


def _put_back(tensor: Any, whole: Tensor, gradient_of: Callable[[Tensor], Any]) -> None:
    gradient = gradient_of(tensor)
    if gradient is None and not bool(whole.any()):
        return
    if not is_dtensor(tensor):
        if gradient is None:
            tensor.grad = whole.clone()
        else:
            local_values(gradient).copy_(torch.view_as_real(whole) if whole.is_complex() else whole)
        return
    from torch.distributed.tensor import DTensor

    tensor.grad = DTensor.from_local(
        whole.clone(),
        tensor.device_mesh,
        tensor.placements,
        run_check=False,
        shape=tensor.shape,
        stride=tensor.stride(),
    )
