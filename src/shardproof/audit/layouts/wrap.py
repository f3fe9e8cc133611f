"""The module of a layout on one rank, wrapped by torch as training would wrap it; one function for each kind."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from shardproof.audit.layouts.describe import (
    Cut,
    Kind,
    Layout,
    Tensor,
    Tied,
    coordinates,
    held,
    indices,
    local_names,
    spans,
    told,
)

Groups = Mapping[str, dist.ProcessGroup]


class LayoutUnavailableError(Exception):
    """The installed torch lacks what the layout is made of; the cell is skipped with this reason."""


def wrapped(layout: Layout, rank: int, mesh: DeviceMesh | None, groups: Groups) -> nn.Module:
    """The layout's module on this rank; collective."""
    model = _WRAPPERS[layout.kind](layout, rank, mesh, groups)
    for tensor in layout.tensors:
        if tensor.marks:
            _mark(tensor, coordinates(layout, rank), model)
    return model


def _unwrapped(layout: Layout, rank: int, mesh: DeviceMesh | None, groups: Groups) -> nn.Module:
    """Plain tensors, and DTensors over the axes that they are told of and that fully_shard does not add."""
    where = coordinates(layout, rank)
    root = nn.Module()
    for tensor in layout.tensors:
        if held(tensor, where):
            for name in local_names(tensor, where):
                parameter = nn.Parameter(_part(layout, tensor, where, mesh), requires_grad=not tensor.frozen)
                for each in (name, *tensor.aliases):
                    _register(root, each, parameter)
    return root


def _ddp(layout: Layout, rank: int, mesh: DeviceMesh | None, groups: Groups) -> nn.Module:
    return nn.parallel.DistributedDataParallel(_unwrapped(layout, rank, mesh, groups))


def _fsdp2(layout: Layout, rank: int, mesh: DeviceMesh | None, groups: Groups) -> nn.Module:
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise LayoutUnavailableError(f"torch {torch.__version__} has no fully_shard: {error}") from error
    assert mesh is not None, "a layout of kind fsdp2 has axes"
    model = _unwrapped(layout, rank, mesh, groups)
    where = coordinates(layout, rank)
    ignored = {
        model.get_parameter(name)
        for tensor in layout.tensors
        if held(tensor, where) and not set(layout.fsdp) <= set(told(layout, tensor))
        for name in local_names(tensor, where)
    }
    if not ignored:
        fully_shard(model, mesh=mesh[layout.fsdp])
    elif "ignored_params" in inspect.signature(fully_shard).parameters:
        fully_shard(model, mesh=mesh[layout.fsdp], ignored_params=ignored)
    else:
        raise LayoutUnavailableError(f"fully_shard of torch {torch.__version__} cannot leave parameters out")
    return model


def _fsdp1(layout: Layout, rank: int, mesh: DeviceMesh | None, groups: Groups) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    # A hybrid strategy takes the group that cuts first and the group that copies second, innermost axis first.
    cuts, *copies = (groups[axis] for axis in reversed(tuple(layout.axes)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # FSDP1 is deprecated
        return FullyShardedDataParallel(
            _original(layout),
            process_group=(cuts, copies[0]) if copies else cuts,
            sharding_strategy=ShardingStrategy[layout.strategy],
            use_orig_params=not layout.original,
            device_id=torch.device("cpu"),
        )


_WRAPPERS: Mapping[Kind, Callable[[Layout, int, DeviceMesh | None, Groups], nn.Module]] = {
    "plain": _unwrapped,
    "dtensor": _unwrapped,
    "ddp": _ddp,
    "fsdp2": _fsdp2,
    "fsdp1": _fsdp1,
}


def _original(layout: Layout) -> nn.Module:
    """The module as it is before FSDP1 flattens it, numbered through where it becomes one flat parameter."""
    root = nn.Module()
    start = 1
    for number, shape in enumerate(layout.original):
        size = math.prod(shape)
        _register(root, f"layer{number}.weight", nn.Parameter(_numbered(range(start, start + size)).reshape(shape)))
        start += size
    for tensor in layout.tensors if not layout.original else ():
        values = _numbered(range(1, 1 + math.prod(tensor.shape)))
        _register(root, tensor.name, nn.Parameter(values.reshape(tensor.shape)))
    return root


def _part(layout: Layout, tensor: Tensor, where: Mapping[str, int], mesh: DeviceMesh | None) -> torch.Tensor:
    """What this rank has before fully_shard: cut by hand on untold axes, by torch on told ones."""
    by_torch = told(layout, tensor)
    by_hand = tuple(axis for axis in layout.axes if axis not in by_torch)
    left = spans(layout, tensor, where, by_hand)
    part = _numbered(index + 1 for index in indices(tensor, left)).to(getattr(torch, tensor.dtype))
    if tensor.padded:
        return nn.functional.pad(part, (0, tensor.padded - len(part)))
    part = part.reshape([len(span) for span in left])
    lies = {axis: tensor.on[axis] for axis in by_torch if axis not in layout.fsdp}
    if not lies or mesh is None:
        return part
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    placements = [Shard(lie.dim) if isinstance(lie, Cut) else Replicate() for lie in lies.values()]
    return distribute_tensor(part, mesh[tuple(lies)], placements)


def _numbered(values: Iterable[int]) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.float32)


def _mark(tensor: Tensor, where: Mapping[str, int], model: nn.Module) -> None:
    """Set Megatron's attributes; of an embedding's copies, all but the first one's are `shared`."""
    ties = [(where[axis], lie) for axis, lie in tensor.on.items() if isinstance(lie, Tied)]
    if not held(tensor, where):
        return
    for name in local_names(tensor, where):
        parameter = model.get_parameter(name)
        for attribute, value in tensor.marks.items():
            setattr(parameter, attribute, value)
        for index, lie in ties:
            parameter.shared_embedding = True  # type: ignore[attr-defined]
            if index != next(iter(lie.names)):
                parameter.shared = True  # type: ignore[attr-defined]


def _register(root: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Put the parameter into a tree of plain modules under its dotted name."""
    *path, leaf = name.split(".")
    owner = root
    for part in path:
        if part not in owner._modules:
            owner.add_module(part, nn.Module())
        owner = owner.get_submodule(part)
    owner.register_parameter(leaf, parameter)
