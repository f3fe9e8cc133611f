"""What a jax subject is told about the run that it is traced in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardproof.records.audit import PlacementKind


@dataclass(frozen=True)
class JaxContext:
    """The third argument of a jax subject: `clip(grads, max_norm, ctx) -> (grads, norm)`.

    The subject is traced once for all devices inside shard_map, so everything here is the same on every device. Each
    device has every parameter: zeros where the layout gives it none, and zeros behind a slice that is shorter than
    another device's, for shard_map's arrays have one shape.

    Attributes:
        layout: the layout's name.
        world_size: the number of devices.
        axes: mesh axis -> size, outermost first: the names for psum. One device has the axis "rank" of size 1.
        mesh: the jax Mesh.
        names: the parameters' names, the keys of grads.
        placements: name -> axis -> "shard", "replicate", "partial" or "distinct".
        tied: tuples of names whose parameters are copies of one tensor: count the first only.
        owned: name -> for each device (start, stop, numel) of a padded flat buffer, whose padding is not zero.
        limit: the limit of this call, the same as max_norm.
        norm_type: the order of the norm.
    """

    layout: str
    world_size: int
    axes: Mapping[str, int]
    mesh: Any
    names: tuple[str, ...]
    placements: Mapping[str, Mapping[str, PlacementKind]]
    tied: tuple[tuple[str, ...], ...]
    owned: Mapping[str, tuple[tuple[int, int, int], ...]]
    limit: float
    norm_type: float
