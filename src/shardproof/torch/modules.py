"""What wrapping modules say of their parameters: DDP keeps copies, FSDP1 keeps ranges of a flat buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import nn

from shardproof.errors import PlacementError
from shardproof.layout import Interval, Mesh, Placement, Slice, line
from shardproof.torch.naming import is_dtensor


@dataclass(frozen=True)
class Own:
    """What a tensor, or the module that holds it, says itself: its own mesh and how it lies on it.

    `part`, `shape` and `counted` are given where the tensor is a range of a flat buffer.
    """

    mesh: Mesh
    kinds: tuple[Placement, ...]
    part: Slice | None = None
    shape: tuple[int, ...] | None = None
    counted: Interval | None = None


def of_modules(module: object) -> dict[int, Own]:
    """Parameter id -> what DistributedDataParallel and FullyShardedDataParallel modules say of it."""
    found: dict[int, Own] = {}
    if not isinstance(module, nn.Module) or not dist.is_available() or not dist.is_initialized():
        return found
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.nn.parallel import DistributedDataParallel

    for each in module.modules():
        if isinstance(each, DistributedDataParallel):
            found.update(_of_ddp(each))
        elif isinstance(each, FullyShardedDataParallel):
            found.update(_of_fsdp1(each))
    return found


def _of_ddp(module: Any) -> Iterator[tuple[int, Own]]:
    own = Own(line(dist.get_process_group_ranks(module.process_group), "replicas"), (Placement.REPLICATE,))
    ignored = set(module.parameters_to_ignore)
    for name, parameter in module.module.named_parameters():
        if name not in ignored and not is_dtensor(parameter):
            yield id(parameter), own


def _of_fsdp1(module: Any) -> Iterator[tuple[int, Own]]:
    handle = module._handle
    if handle is None:
        return
    mesh, kinds = _fsdp1_mesh(module, handle)
    flat = handle.flat_param
    if not handle._use_orig_params:
        yield id(flat), _flat(flat, handle, mesh, kinds)
        return
    infos = flat._shard_param_infos if handle.uses_sharded_strategy else [None] * len(flat._params)
    for parameter, info, numel in zip(flat._params, infos, flat._numels, strict=True):
        yield id(parameter), _range_of(info, int(numel), mesh, kinds)
    for parameter, (name, owner, _) in zip(flat._shared_params or (), flat._shared_param_infos or (), strict=True):
        del name, owner
        # A shared parameter is another name of one that stands above; it has a tensor of its own under FSDP1.
        if parameter is not None and all(parameter is not each for each in flat._params):
            raise PlacementError(
                "FSDP1 keeps a shared parameter as a separate tensor here; name it in tied= or drop it from the list."
            )


def _range_of(info: Any, numel: int, mesh: Mesh, kinds: tuple[Placement, ...]) -> Own:
    """One original parameter: the elements of it that lie in this rank's part of the flat buffer."""
    if info is None:
        return Own(mesh, kinds, Slice.flat(0, numel), (numel,))
    if not info.in_shard:
        return Own(mesh, kinds, Slice(((),)), (numel,))
    return Own(mesh, kinds, Slice.flat(info.intra_param_start_idx, info.intra_param_end_idx + 1), (numel,))


def _flat(flat: Any, handle: Any, mesh: Mesh, kinds: tuple[Placement, ...]) -> Own:
    """The flat buffer itself: this rank's part without the padding at its end."""
    numel = int(flat._unpadded_unsharded_size.numel())
    if not handle.uses_sharded_strategy:
        return Own(mesh, kinds, Slice.flat(0, numel), (numel,), (0, numel))
    size = int(flat._sharded_size.numel())
    start = min(handle.rank * size, numel)
    stop = min(start + size, numel)
    return Own(mesh, kinds, Slice.flat(start, stop), (numel,), (0, stop - start))


def _fsdp1_mesh(module: Any, handle: Any) -> tuple[Mesh, tuple[Placement, ...]]:
    ranks = tuple(dist.get_process_group_ranks(module.process_group))
    kind = Placement.SHARD if handle.uses_sharded_strategy else Placement.REPLICATE
    outer = getattr(module, "_inter_node_pg", None)
    if outer is None:
        return line(ranks, "fsdp"), (kind,)
    replicas = tuple(dist.get_process_group_ranks(outer))
    # Hybrid: the other replicas' shard groups are this one, shifted; coverage is proved afterwards.
    here = dist.get_rank()
    spread = tuple(rank - here + replica for replica in replicas for rank in ranks)
    return Mesh(("replicas", "fsdp"), (len(replicas), len(ranks)), spread), (Placement.REPLICATE, kind)
