"""The real objects of a layout on one rank: modules wrapped by torch itself, and their DeviceMesh.

Each parameter's value is one more than the flat index of its element in the logical tensor, zero is padding; it is
set before torch shards it. What torch made of the layout can then be read from the shard, and need not be believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from shardproof.audit.layouts.describe import Layout, Tensor, shares
from shardproof.audit.layouts.wrap import LayoutUnavailableError, wrapped

_PREFIXES = ("module.", "_fsdp_wrapped_module.")


@dataclass(frozen=True)
class Entry:
    """One parameter as the subject sees it, and the part of a logical tensor that it was seen to hold.

    indices: of its elements, in order. padding: how many elements follow that belong to no tensor.
    """

    name: str
    tensor: Tensor
    parameter: torch.Tensor
    indices: tuple[int, ...]
    padding: int


@dataclass(frozen=True)
class Built:
    """A layout on one rank; groups: axis -> the process group of this rank's line along the axis."""

    model: nn.Module
    entries: tuple[Entry, ...]
    mesh: DeviceMesh | None
    groups: Mapping[str, dist.ProcessGroup]


def build(layout: Layout, rank: int, timeout_s: float) -> Built:
    """Make the layout's modules on this rank; collective, the default process group stands already."""
    groups = _axis_groups(layout, rank, timedelta(seconds=timeout_s))
    mesh = _mesh(layout, groups)
    model = wrapped(layout, rank, mesh, groups)
    by_name = {_bare(name): parameter for name, parameter in model.named_parameters()}
    entries = tuple(_entry(share.entry, share.tensor, by_name[share.entry]) for share in shares(layout, rank))
    return Built(model, entries, mesh, groups)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this rank holds, detached."""
    plain = tensor.detach()
    return plain.to_local() if hasattr(plain, "to_local") else plain


def set_gradient(entry: Entry, values: list[float] | None) -> None:
    """Give the parameter a fresh gradient, laid out as the parameter is; values in the order of its indices.

    None leaves it without a gradient. Padding gets what the layout says lies there.
    """
    parameter = entry.parameter
    if values is None:
        parameter.grad = None
        return
    whole = [*values, *[entry.tensor.stale] * entry.padding]
    # A clone, for autograd's own gradients are no views either: detach_() and the like refuse views.
    part = torch.tensor(whole, dtype=parameter.dtype).reshape(local(parameter).shape).clone()
    if not hasattr(parameter, "device_mesh"):
        parameter.grad = part
        return
    from torch.distributed.tensor import DTensor

    parameter.grad = DTensor.from_local(
        part,
        parameter.device_mesh,
        parameter.placements,  # type: ignore[attr-defined]
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _entry(name: str, tensor: Tensor, parameter: torch.Tensor) -> Entry:
    seen = [int(value) - 1 for value in local(parameter).flatten().tolist()]
    padding = sum(index < 0 for index in seen)
    kept = seen[: len(seen) - padding]
    if any(index < 0 for index in kept):
        raise RuntimeError(f"Expected padding behind the elements of {name!r} only, got the indices {seen}.")
    return Entry(name, tensor, parameter, tuple(kept), padding)


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _axis_groups(layout: Layout, rank: int, timeout: timedelta) -> dict[str, dist.ProcessGroup]:
    # DeviceMesh would make these groups itself, but with torch's default timeout of half an hour: a collective
    # that one rank skips would then end by the harness's clock only, and without torch's own message.
    ranks = torch.arange(layout.world_size).reshape(tuple(layout.axes.values()))
    mine: dict[str, dist.ProcessGroup] = {}
    for dim, axis in enumerate(layout.axes):
        for line in ranks.movedim(dim, -1).reshape(-1, layout.axes[axis]).tolist():
            group = dist.new_group(line, timeout=timeout)
            if rank in line:
                mine[axis] = group
    return mine


def _mesh(layout: Layout, groups: Mapping[str, dist.ProcessGroup]) -> DeviceMesh | None:
    if not layout.axes:
        return None
    names, sizes = tuple(layout.axes), tuple(layout.axes.values())
    if len(names) == 1:
        return DeviceMesh.from_group(groups[names[0]], "cpu", mesh_dim_names=names)
    ranks = torch.arange(layout.world_size).reshape(sizes)
    return DeviceMesh.from_group([groups[axis] for axis in names], "cpu", mesh=ranks, mesh_dim_names=names)


__all__ = ["Built", "Entry", "LayoutUnavailableError", "build", "local", "set_gradient"]
