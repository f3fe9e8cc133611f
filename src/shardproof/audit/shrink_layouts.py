"""A part of a layout: fewer ranks along each axis, fewer tensors, fewer rows, and nothing else changed."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from shardproof.audit.layouts import Cut, Layout, Lie, Only, Tensor, Tied, coordinates
from shardproof.records.shrunk import Kept

FIXED = ("fsdp1",)
"""Kinds whose slices follow from all tensors together: nothing of their layouts can be left out."""
NEEDS_AXES = ("ddp", "fsdp1")


@dataclass(frozen=True)
class Part:
    """A part of a layout; came_from: tensor -> for each of its elements the index in the whole; ranks: the old ones."""

    layout: Layout
    came_from: Mapping[str, tuple[int, ...]]
    ranks: tuple[int, ...]


def everything(layout: Layout) -> Kept:
    """All of a layout."""
    return Kept(
        places={axis: tuple(range(size)) for axis, size in layout.axes.items()},
        tensors=tuple(tensor.name for tensor in layout.tensors),
        longest={tensor.name: most_rows(tensor) for tensor in layout.tensors},
    )


def most_rows(tensor: Tensor) -> tuple[int, ...]:
    """For each dim its length, or that of its longest slice where the lengths of slices are given."""
    sizes = [_sizes(tensor, dim) for dim in range(len(tensor.shape))]
    return tuple(max(given) if given else length for given, length in zip(sizes, tensor.shape, strict=True))


def part_of(layout: Layout, kept: Kept) -> Part:
    """The kept part of a layout as a layout of its own.

    >>> from shardproof.audit.layouts import LAYOUTS
    >>> whole = LAYOUTS["hand-sharded"]
    >>> some = everything(whole).model_copy(update={"tensors": ("up.weight",), "longest": {"up.weight": (1, 1)}})
    >>> [tensor.shape for tensor in part_of(whole, some).layout.tensors]
    [(2, 1)]
    """
    ranks = tuple(rank for rank in range(layout.world_size) if _stays(coordinates(layout, rank), kept))
    parts = [
        found
        for tensor in layout.tensors
        if tensor.name in kept.tensors and (found := _tensor(layout, tensor, kept, ranks)) is not None
    ]
    axes = {axis: len(kept.places[axis]) for axis in layout.axes}
    gone = _needless(layout, axes)
    tensors = tuple(_without(tensor, gone) for tensor, _ in parts)
    smaller = dataclasses.replace(
        layout,
        title=f"part of {layout.name}: {layout.title}",
        axes={axis: size for axis, size in axes.items() if axis not in gone},
        tensors=tensors,
    )
    return Part(smaller, {tensor.name: came_from for tensor, came_from in parts}, ranks)


def _stays(where: Mapping[str, int], kept: Kept) -> bool:
    return all(index in kept.places[axis] for axis, index in where.items())


def _needless(layout: Layout, axes: Mapping[str, int]) -> set[str]:
    """Axes of one rank that nothing needs; a mesh keeps at least one axis."""
    if layout.kind in NEEDS_AXES:
        return set()
    gone = {axis for axis, size in axes.items() if size == 1 and axis not in layout.fsdp}
    return gone if layout.kind == "plain" or len(gone) < len(axes) else gone - {next(iter(axes))}


def _without(tensor: Tensor, gone: set[str]) -> Tensor:
    return dataclasses.replace(tensor, on={axis: lie for axis, lie in tensor.on.items() if axis not in gone})


def _tensor(
    layout: Layout, tensor: Tensor, kept: Kept, ranks: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...]] | None:
    """The tensor as it lies on the kept ranks, and where its elements were; None where none of them holds it."""
    on: dict[str, Lie] = {}
    entry = tensor.entry
    for axis, lie in tensor.on.items():
        left = _lie(lie, kept.places[axis])
        if left is None:
            return None
        if isinstance(left, Tied) and len(left.names) == 1:
            ((index, entry),) = left.names.items()
            left = Only(index)
        on[axis] = left
    rows = [_rows(tensor, dim, kept) for dim in range(len(tensor.shape))]
    on = {axis: _cut(lie, kept.places[axis], tensor, kept) for axis, lie in on.items()}
    smaller = dataclasses.replace(
        tensor,
        shape=tuple(map(len, rows)),
        on=on,
        entry=entry,
        idle=tuple(new for new, old in enumerate(ranks) if old in tensor.idle),
        padded=_padded(layout, tensor, on, len(rows[0]) if rows else 1),
    )
    strides = [math.prod(tensor.shape[dim + 1 :]) for dim in range(len(tensor.shape))]
    came_from = tuple(
        sum(place * stride for place, stride in zip(at, strides, strict=True)) for at in itertools.product(*rows)
    )
    return smaller, came_from


def _lie(lie: Lie, places: tuple[int, ...]) -> Lie | None:
    if isinstance(lie, Only):
        return Only(places.index(lie.index)) if lie.index in places else None
    if isinstance(lie, Tied):
        names = {places.index(index): name for index, name in lie.names.items() if index in places}
        return Tied(names) if names else None
    return lie


def _cut(lie: Lie, places: tuple[int, ...], tensor: Tensor, kept: Kept) -> Lie:
    if not isinstance(lie, Cut) or not lie.sizes:
        return lie
    longest = kept.longest[tensor.name][lie.dim]
    return dataclasses.replace(lie, sizes=tuple(min(lie.sizes[index], longest) for index in places))


def _rows(tensor: Tensor, dim: int, kept: Kept) -> list[int]:
    """Which rows of a dim are left: the first ones, or the first ones of each kept slice."""
    longest = kept.longest[tensor.name][dim]
    for axis, lie in tensor.on.items():
        if isinstance(lie, Cut) and lie.dim == dim and lie.sizes:
            starts = [sum(lie.sizes[:index]) for index in kept.places[axis]]
            lengths = [min(lie.sizes[index], longest) for index in kept.places[axis]]
            return [start + row for start, length in zip(starts, lengths, strict=True) for row in range(length)]
    return list(range(min(tensor.shape[dim], longest)))


def _sizes(tensor: Tensor, dim: int) -> tuple[int, ...]:
    return next((lie.sizes for lie in tensor.on.values() if isinstance(lie, Cut) and lie.dim == dim), ())


def _padded(layout: Layout, tensor: Tensor, on: Mapping[str, Lie], numel: int) -> int:
    """The length of a padded buffer: one more than the longest range, where it has become shorter."""
    if not tensor.padded or layout.kind in FIXED:
        return tensor.padded
    longest = max((max(lie.sizes) for lie in on.values() if isinstance(lie, Cut) and lie.sizes), default=numel)
    return min(tensor.padded, longest + 1)
