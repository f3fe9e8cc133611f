"""One tensor as one rank lists it, and its identity across ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from shardproof.errors import PlacementError
from shardproof.layout.mesh import Mesh
from shardproof.layout.placement import Placement
from shardproof.layout.slices import Slice


@dataclass(frozen=True)
class Identity:
    """Which logical tensor it is: equal on all ranks that hold a part of it.

    `position` is the place on the *distinct* axes, on which equal names mean different tensors.
    """

    name: str
    position: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        if not self.position:
            return self.name
        return f"{self.name} [{', '.join(f'{axis}={step}' for axis, step in self.position)}]"


@dataclass(frozen=True)
class Listed:
    """One tensor as one rank lists it.

    Args:
        name: the rank's name for it.
        mesh: axes over which it lies; covers every rank of the run.
        placements: one for each axis of the mesh.
        part: the elements of the whole tensor that this rank holds and that count; None where unknown.
        shape: the whole tensor's shape; None where unknown.
        tie: names of one tied tensor in order of ownership, `name` among them; empty when not tied.
        count: how many elements this rank holds, where it is unknown which.
    """

    name: str
    mesh: Mesh
    placements: tuple[Placement, ...]
    part: Slice | None = None
    shape: tuple[int, ...] | None = None
    tie: tuple[str, ...] = ()
    count: int | None = None

    def __post_init__(self) -> None:
        if len(self.placements) != len(self.mesh.axes):
            raise PlacementError(
                f"Expected one placement for each of the axes {self.mesh.axes} of {self.name}, "
                f"got {len(self.placements)}."
            )

    def axes_with(self, *kinds: Placement) -> frozenset[str]:
        """The axes on which the tensor lies in one of these ways."""
        return frozenset(axis for axis, kind in zip(self.mesh.axes, self.placements, strict=True) if kind in kinds)

    @cached_property
    def copy_axes(self) -> frozenset[str]:
        """The axes along which other ranks hold copies; a tied tensor's copies lie on distinct axes too.

        Summands are reduced before anything is counted, and are copies then.
        """
        copies = self.axes_with(Placement.REPLICATE, Placement.PARTIAL)
        return copies | self.axes_with(Placement.DISTINCT) if self.tie else copies

    def identity(self, rank: int) -> Identity:
        """The logical tensor of which `rank` lists a part here."""
        steps = self.mesh.coordinates(rank)
        position = tuple([(axis, steps[index]) for index, axis in self._telling])
        return Identity(self.tie[0] if self.tie else self.name, position)

    @cached_property
    def _telling(self) -> tuple[tuple[int, str], ...]:
        """The axes on which equal names are different tensors, with their places in the mesh."""
        axes = self.axes_with(Placement.DISTINCT) - self.copy_axes
        return tuple((index, axis) for index, axis in enumerate(self.mesh.axes) if axis in axes)

    @property
    def numel(self) -> int | None:
        """How many elements the whole tensor has; None where unknown."""
        return None if self.shape is None else math.prod(self.shape)
