"""What a layout is, without any framework: logical tensors, mesh axes, and which rank holds which elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from shardproof.errors import InvalidValueError
from shardproof.records.audit import PlacementKind

Kind = Literal["plain", "ddp", "fsdp2"]


@dataclass(frozen=True)
class Cut:
    """Along this axis the tensor is cut on `dim`; `sizes` are the slices' lengths, () is torch's chunk rule."""

    dim: int = 0
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Copy:
    """Along this axis every rank holds the same; `told` says whether the framework's own object knows it."""

    told: bool = True


@dataclass(frozen=True)
class Only:
    """Only the ranks at `index` of this axis hold the tensor; others hold different ones, maybe so named."""

    index: int


Lie = Cut | Copy | Only


@dataclass(frozen=True)
class Tensor:
    """A logical tensor.

    name: unique in the layout. on: axis -> how it lies there, in the order in which the cuts are made.
    entry: the local parameter name, where it is not `name`.
    """

    name: str
    shape: tuple[int, ...]
    on: Mapping[str, Lie] = field(default_factory=dict)
    entry: str = ""
    dtype: str = "float32"

    @property
    def local_name(self) -> str:
        """The name under which a rank holds its part."""
        return self.entry or self.name


@dataclass(frozen=True)
class Layout:
    """A named way to lay tensors on ranks.

    axes: mesh axis -> size, outermost first; empty for one rank without a mesh. kind: which builder makes the
    real objects. fsdp: the axes that fully_shard cuts or copies over.
    """

    name: str
    title: str
    kind: Kind
    axes: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    fsdp: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return math.prod(self.axes.values())


@dataclass(frozen=True)
class Share:
    """What one rank holds of one tensor: the local shape and the flat (row-major) indices of its elements."""

    tensor: Tensor
    shape: tuple[int, ...]
    indices: tuple[int, ...]
    placements: Mapping[str, PlacementKind]


def coordinates(layout: Layout, rank: int) -> dict[str, int]:
    """Where a rank lies on each axis, the last axis running fastest.

    >>> coordinates(Layout("x", "", "plain", {"dp": 2, "tp": 2}, ()), 1)
    {'dp': 0, 'tp': 1}
    """
    places = itertools.product(*(range(size) for size in layout.axes.values()))
    return dict(zip(layout.axes, next(itertools.islice(places, rank, None)), strict=True))


def shares(layout: Layout, rank: int) -> tuple[Share, ...]:
    """What `rank` holds, in the order of the layout's tensors; empty slices are listed, absent tensors are not."""
    where = coordinates(layout, rank)
    return tuple(_share(layout, tensor, where) for tensor in layout.tensors if held(tensor, where))


def held(tensor: Tensor, where: Mapping[str, int]) -> bool:
    """Whether the rank at these coordinates holds (perhaps an empty slice of) the tensor."""
    return all(not isinstance(lie, Only) or where[axis] == lie.index for axis, lie in tensor.on.items())


def kind_of(lie: Lie) -> PlacementKind:
    """The contract's word for how a tensor lies on an axis."""
    return "shard" if isinstance(lie, Cut) else "replicate" if isinstance(lie, Copy) else "distinct"


def _share(layout: Layout, tensor: Tensor, where: Mapping[str, int]) -> Share:
    spans = [range(size) for size in tensor.shape]
    for axis, lie in tensor.on.items():
        if isinstance(lie, Cut):
            spans[lie.dim] = _slice(spans[lie.dim], lie, where[axis], layout.axes[axis])
    strides = [math.prod(tensor.shape[dim + 1 :]) for dim in range(len(tensor.shape))]
    indices = tuple(
        sum(place * stride for place, stride in zip(places, strides, strict=True))
        for places in itertools.product(*spans)
    )
    placements: dict[str, PlacementKind] = {axis: kind_of(tensor.on.get(axis, Copy())) for axis in layout.axes}
    return Share(tensor, tuple(len(span) for span in spans), indices, placements)


def _slice(span: range, cut: Cut, index: int, parts: int) -> range:
    if not cut.sizes:
        # torch.chunk: every slice but the last ones has ceil(n / parts) elements, and late ranks may get none.
        length = -(-len(span) // parts)
        return span[index * length : (index + 1) * length]
    if len(cut.sizes) != parts or sum(cut.sizes) != len(span):
        raise InvalidValueError(
            f"Expected {parts} slice lengths that add up to {len(span)}, got sizes={cut.sizes}. Correct the layout."
        )
    start = sum(cut.sizes[:index])
    return span[start : start + cut.sizes[index]]
