"""What a subject is told about the run it is called in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
        limit: the limit of this call, the same as max_norm.
        norm_type: the order of the norm, 2.0.
        groups: axis -> process group of this rank's line along the axis.
        params: the entries themselves, parameters with .grad; the same as the first argument.
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

    def group(self, axis: str) -> ProcessGroup:
        """The process group of this rank's line along `axis`; raises KeyError for an axis the mesh lacks."""
        return self.groups[axis]
