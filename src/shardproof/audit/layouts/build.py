"""The real objects of a layout on one rank: modules wrapped by torch itself, and their DeviceMesh.

Each parameter's value is the flat index of its element in the logical tensor, and it is set before torch
shards it. What torch made of the layout can then be read from the shard, and need not be believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from shardproof.audit.layouts.describe import Copy, Cut, Kind, Layout, Tensor, coordinates, held, shares


class LayoutUnavailableError(Exception):
    """The installed torch lacks what the layout is made of; the cell is skipped with this reason."""


@dataclass(frozen=True)
class Entry:
    """One parameter as the subject sees it, and the logical tensor it is a part of."""

    name: str
    tensor: Tensor
    parameter: torch.Tensor


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
    model = _BUILDERS[layout.kind](layout, rank, mesh)
    by_name = {name.removeprefix("module."): parameter for name, parameter in model.named_parameters()}
    parts = [tensor for tensor in layout.tensors if held(tensor, coordinates(layout, rank))]
    return Built(
        model, tuple(Entry(tensor.local_name, tensor, by_name[tensor.local_name]) for tensor in parts), mesh, groups
    )


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this rank holds, detached."""
    plain = tensor.detach()
    return plain.to_local() if hasattr(plain, "to_local") else plain


def indices_of(entry: Entry) -> list[int]:
    """Which elements of the logical tensor the parameter was seen to hold."""
    return [int(value) for value in local(entry.parameter).flatten().tolist()]


def set_gradient(entry: Entry, values: list[float]) -> None:
    """Give the parameter a fresh gradient, laid out as the parameter is; values in the order of its indices."""
    parameter = entry.parameter
    part = torch.tensor(values, dtype=parameter.dtype).reshape(local(parameter).shape)
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


def _plain(layout: Layout, rank: int, mesh: DeviceMesh | None) -> nn.Module:
    return _module(
        {
            share.tensor.local_name: torch.tensor(share.indices, dtype=_dtype(share.tensor)).reshape(share.shape)
            for share in shares(layout, rank)
        }
    )


def _ddp(layout: Layout, rank: int, mesh: DeviceMesh | None) -> nn.Module:
    model = _module({tensor.local_name: _whole(tensor) for tensor in layout.tensors})
    return nn.parallel.DistributedDataParallel(model)


def _fsdp2(layout: Layout, rank: int, mesh: DeviceMesh | None) -> nn.Module:
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise LayoutUnavailableError(f"torch {torch.__version__} has no fully_shard: {error}") from error
    assert mesh is not None, "a layout of kind fsdp2 has axes"
    model = _module({tensor.local_name: _tensor_parallel(layout, tensor, mesh) for tensor in layout.tensors})
    fully_shard(model, mesh=mesh[layout.fsdp])
    return model


_BUILDERS: Mapping[Kind, Callable[[Layout, int, DeviceMesh | None], nn.Module]] = {
    "plain": _plain,
    "ddp": _ddp,
    "fsdp2": _fsdp2,
}


def _tensor_parallel(layout: Layout, tensor: Tensor, mesh: DeviceMesh) -> torch.Tensor:
    """The tensor as parallelize_module would leave it: a DTensor over the axes that are not fully_shard's."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    told = {
        axis: Shard(lie.dim) if isinstance(lie, Cut) else Replicate()
        for axis, lie in tensor.on.items()
        if axis not in layout.fsdp and not (isinstance(lie, Copy) and not lie.told)
    }
    if not told:
        return _whole(tensor)
    return distribute_tensor(_whole(tensor), mesh[tuple(told)], list(told.values()))


def _whole(tensor: Tensor) -> torch.Tensor:
    return torch.arange(math.prod(tensor.shape), dtype=_dtype(tensor)).reshape(tensor.shape)


def _dtype(tensor: Tensor) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, tensor.dtype)
    return dtype


def _module(parameters: Mapping[str, torch.Tensor]) -> nn.Module:
    """A tree of plain modules with these parameters under their dotted names."""
    root = nn.Module()
    for name, value in parameters.items():
        *path, leaf = name.split(".")
        owner = root
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        owner.register_parameter(leaf, nn.Parameter(value))
    return root
