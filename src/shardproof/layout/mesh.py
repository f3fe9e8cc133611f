"""Ranks on a grid of named axes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from shardproof.errors import PlacementError


@dataclass(frozen=True)
class Mesh:
    """Ranks on a grid: `ranks` in row-major order over `axes` with `sizes`; every rank once.

    >>> mesh = Mesh(("dp", "tp"), (2, 2), (0, 1, 2, 3))
    >>> mesh.coordinates(2)
    (1, 0)
    >>> mesh.along(2, {"tp"})
    (2, 3)
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.axes) != len(self.sizes) or len(set(self.axes)) != len(self.axes):
            raise PlacementError(f"Expected one size for each axis name, got axes={self.axes}, sizes={self.sizes}.")
        if math.prod(self.sizes) != len(self.ranks) or len(set(self.ranks)) != len(self.ranks):
            grid = dict(zip(self.axes, self.sizes, strict=True))
            raise PlacementError(
                f"Expected {math.prod(self.sizes)} different ranks on axes {grid}, "
                f"got {len(self.ranks)} ranks, {len(set(self.ranks))} of them different."
            )

    @cached_property
    def _positions(self) -> dict[int, tuple[int, ...]]:
        return dict(zip(self.ranks, product(*map(range, self.sizes)), strict=True))

    def __contains__(self, rank: int) -> bool:
        return rank in self._positions

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """The position of `rank` on each axis."""
        if rank not in self._positions:
            raise PlacementError(f"Expected a rank of the mesh on axes {self.axes}, got rank {rank}.")
        return self._positions[rank]

    def rank_at(self, position: tuple[int, ...]) -> int:
        """The rank at this position."""
        place = 0
        for size, step in zip(self.sizes, position, strict=True):
            place = place * size + step
        return self.ranks[place]

    def along(self, rank: int, axes: Collection[str]) -> tuple[int, ...]:
        """The ranks that differ from `rank` at most on `axes`, in mesh order, `rank` among them."""
        return tuple(self.each_along(rank, axes))

    def each_along(self, rank: int, axes: Collection[str]) -> Iterator[int]:
        """The same one by one, for a caller that needs only the first of many."""
        here = self.coordinates(rank)
        choices = [
            range(size) if axis in axes else (step,)
            for axis, size, step in zip(self.axes, self.sizes, here, strict=True)
        ]
        return (self.rank_at(position) for position in product(*choices))

    def spanned_by(self, rank: int, members: Collection[int]) -> tuple[str, ...] | None:
        """The axes whose line, plane, ... through `rank` is exactly `members`; None if there are none.

        >>> Mesh(("dp", "tp"), (2, 2), (0, 1, 2, 3)).spanned_by(0, {0, 2})
        ('dp',)
        """
        if rank not in members or not all(member in self for member in members):
            return None
        places = [self.coordinates(member) for member in members]
        varying = tuple(axis for index, axis in enumerate(self.axes) if len({place[index] for place in places}) > 1)
        return varying if set(self.along(rank, varying)) == set(members) else None


def line(ranks: Collection[int], axis: str = "ranks") -> Mesh:
    """A mesh of one axis.

    >>> line([0, 1]).sizes
    (2,)
    """
    return Mesh((axis,), (len(ranks),), tuple(ranks))


def crossed(inner: Mesh, outer: Mesh, axes: Collection[str], rank: int) -> Mesh:
    """Spread `inner`, which lies on some axes of `outer`, over the other axes `axes` of `outer` too.

    A tensor often names a mesh that covers only part of the run: its own axes (`inner`, through `rank`). At
    every other position on `axes` the same grid stands, shifted; the result covers both.

    >>> whole = Mesh(("dp", "tp"), (2, 2), (0, 1, 2, 3))
    >>> crossed(Mesh(("shard",), (2,), (0, 2)), whole, ("tp",), 0).ranks
    (0, 1, 2, 3)
    """
    extra = [axis for axis in outer.axes if axis in axes]
    indices = [outer.axes.index(axis) for axis in extra]
    sizes = [outer.sizes[index] for index in indices]
    ranks = []
    for member in inner.ranks:
        position = list(outer.coordinates(member))
        for steps in product(*(range(size) for size in sizes)):
            for index, step in zip(indices, steps, strict=True):
                position[index] = step
            ranks.append(outer.rank_at(tuple(position)))
    names = [axis if axis not in inner.axes else f"{axis} (outer)" for axis in extra]
    return Mesh((*inner.axes, *names), (*inner.sizes, *sizes), tuple(ranks))
