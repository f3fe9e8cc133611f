"""What a subject is told about the run it is called in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardproof.records.audit import PlacementKind

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True)
class Context:
    """The third argument of a subject: `clip(params, max_norm, ctx)`.

    Attributes:
        model: the module that the parameters belong to, wrapped as training would wrap it.
        rank: this process's rank in the default process group.
        world_size: the number of ranks.
        layout: the layout's name.
        mesh: the DeviceMesh over all ranks with named axes; None for one rank without a mesh.
        axes: mesh axis -> size, outermost first.
        names: for each entry of params its local parameter name; stages may use the same names.
        placements: for each entry of params: axis -> "shard", "replicate", "partial" or "distinct".
        tied: tuples of local parameter names, the same on every rank: the parameters under these names, on one rank
            or on several, are copies of one tensor, whose gradients were added up already. Count the first only.
        owned: local parameter name -> (start, stop, numel) for each flat buffer with padding: this rank's buffer
            begins with elements start..stop of the numel that count; what lies behind them is padding.
        limit: the limit of this call, the same as max_norm.
        norm_type: the order of the norm, 2.0.
        groups: axis -> process group of this rank's line along the axis.
        params: the entries themselves, the same as the first argument: this rank's parameters that require a
            gradient. Their .grad is reduced and may be None, on some ranks and steps: it counts as zero.
    """

    model: nn.Module
    rank: int
    world_size: int
    layout: str
    mesh: DeviceMesh | None
    axes: Mapping[str, int]
    names: tuple[str, ...]
    placements: tuple[Mapping[str, PlacementKind], ...]
    limit: float
    norm_type: float
    groups: Mapping[str, ProcessGroup]
    params: tuple[torch.Tensor, ...]
    tied: tuple[tuple[str, ...], ...] = ()
    owned: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    def group(self, axis: str) -> ProcessGroup:
        """The process group of this rank's line along `axis`; raises KeyError for an axis the mesh lacks."""
        return self.groups[axis]
