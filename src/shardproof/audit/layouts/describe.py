"""What a layout is, without any framework: logical tensors, mesh axes, and which rank holds which elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from shardproof.errors import InvalidValueError
from shardproof.records.audit import PlacementKind

Kind = Literal["plain", "ddp", "dtensor", "fsdp2", "fsdp1"]


@dataclass(frozen=True)
class Cut:
    """Along this axis the tensor is cut on `dim`.

    sizes: the slices' lengths, () is torch's chunk rule. told: whether the framework's own object knows it.
    """

    dim: int = 0
    sizes: tuple[int, ...] = ()
    told: bool = True


@dataclass(frozen=True)
class Copy:
    """Along this axis every rank holds the same; `told` says whether the framework's own object knows it."""

    told: bool = True


@dataclass(frozen=True)
class Only:
    """Only the ranks at `index` of this axis hold the tensor; others hold different ones, maybe so named."""

    index: int


@dataclass(frozen=True)
class Tied:
    """The ranks at these indices of the axis hold copies of the tensor, each under its own name: index -> name."""

    names: Mapping[int, str]


Lie = Cut | Copy | Only | Tied


@dataclass(frozen=True)
class Tensor:
    """A logical tensor.

    name: unique in the layout. on: axis -> how it lies there, in the order in which the cuts are made.
    entry: the local parameter name, where it is not `name`. twins: further names under which the same ranks hold
    copies as parameters of their own. aliases: further names of the very same parameter object.
    frozen: requires no gradient, so that no subject is given it. idle: ranks that have no gradient for it.
    padded: the length of every rank's flat buffer, of which it owns the first elements; `stale` lies in the rest.
    marks: attributes set on the parameter, as Megatron does.
    """

    name: str
    shape: tuple[int, ...]
    on: Mapping[str, Lie] = field(default_factory=dict)
    entry: str = ""
    dtype: str = "float32"
    twins: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    frozen: bool = False
    idle: tuple[int, ...] = ()
    padded: int = 0
    stale: float = 0.0
    marks: Mapping[str, bool | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """A named way to lay tensors on ranks.

    axes: mesh axis -> size, outermost first; empty for one rank without a mesh. kind: which builder makes the
    real objects. fsdp: the axes that fully_shard cuts or copies over. strategy: FSDP1's ShardingStrategy.
    original: the shapes of the parameters that FSDP1 keeps as one flat one; () keeps them apart.
    """

    name: str
    title: str
    kind: Kind
    axes: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    fsdp: tuple[str, ...] = ()
    strategy: str = ""
    original: tuple[tuple[int, ...], ...] = ()

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return math.prod(self.axes.values())


@dataclass(frozen=True)
class Share:
    """What one rank holds of one tensor under one name.

    shape: the local shape, without padding. indices: the flat (row-major) indices of its elements. padding: how
    many elements of the local buffer follow that belong to no tensor.
    """

    tensor: Tensor
    entry: str
    shape: tuple[int, ...]
    indices: tuple[int, ...]
    placements: Mapping[str, PlacementKind]
    padding: int = 0

    @property
    def owned(self) -> tuple[int, int, int] | None:
        """Of a padded flat buffer: start and stop of what this rank owns, and the length of the whole."""
        if not self.tensor.padded:
            return None
        numel = math.prod(self.tensor.shape)
        start = self.indices[0] if self.indices else numel
        return start, start + len(self.indices), numel


def coordinates(layout: Layout, rank: int) -> dict[str, int]:
    """Where a rank lies on each axis, the last axis running fastest.

    >>> coordinates(Layout("x", "", "plain", {"dp": 2, "tp": 2}, ()), 1)
    {'dp': 0, 'tp': 1}
    """
    places = itertools.product(*(range(size) for size in layout.axes.values()))
    return dict(zip(layout.axes, next(itertools.islice(places, rank, None)), strict=True))


def shares(layout: Layout, rank: int) -> tuple[Share, ...]:
    """What a subject is given on `rank`, in the order of the layout's tensors.

    Empty slices are listed; tensors that the rank does not hold, and frozen ones, are not.
    """
    where = coordinates(layout, rank)
    return tuple(
        share
        for tensor in layout.tensors
        if held(tensor, where) and not tensor.frozen
        for share in _shares(layout, tensor, where)
    )


def held(tensor: Tensor, where: Mapping[str, int]) -> bool:
    """Whether the rank at these coordinates holds (perhaps an empty slice of) the tensor."""
    return all(_holds(lie, where[axis]) for axis, lie in tensor.on.items())


def local_names(tensor: Tensor, where: Mapping[str, int]) -> tuple[str, ...]:
    """The names under which the rank at these coordinates holds the tensor, one for each parameter."""
    tied = [lie.names[where[axis]] for axis, lie in tensor.on.items() if isinstance(lie, Tied)]
    return (tied[0] if tied else tensor.entry or tensor.name, *tensor.twins)


def tied(layout: Layout) -> tuple[tuple[str, ...], ...]:
    """For each tensor with copies under different names: the names, the first is the one to count."""
    by_axis = [
        tuple(lie.names.values()) for each in layout.tensors for lie in each.on.values() if isinstance(lie, Tied)
    ]
    on_rank = [(each.entry or each.name, *each.twins) for each in layout.tensors if each.twins]
    return (*by_axis, *on_rank)


def told(layout: Layout, tensor: Tensor) -> tuple[str, ...]:
    """The axes on which torch's own object, a DTensor, knows how the tensor lies; in the mesh's order."""
    if layout.kind not in ("dtensor", "fsdp2"):
        return ()
    knows = {axis for axis, lie in tensor.on.items() if isinstance(lie, (Cut, Copy)) and lie.told}
    return tuple(axis for axis in layout.axes if axis in knows)


def kind_of(lie: Lie) -> PlacementKind:
    """The contract's word for how a tensor lies on an axis."""
    return "shard" if isinstance(lie, Cut) else "replicate" if isinstance(lie, Copy) else "distinct"


def spans(layout: Layout, tensor: Tensor, where: Mapping[str, int], axes: tuple[str, ...]) -> list[range]:
    """The range of each dim that is left after the cuts on `axes`."""
    left = [range(size) for size in tensor.shape]
    for axis, lie in tensor.on.items():
        if isinstance(lie, Cut) and axis in axes:
            left[lie.dim] = _slice(left[lie.dim], lie, where[axis], layout.axes[axis])
    return left


def indices(tensor: Tensor, left: list[range]) -> tuple[int, ...]:
    """The flat indices of the elements in these ranges.

    >>> indices(Tensor("w", (2, 3)), [range(1, 2), range(0, 2)])
    (3, 4)
    """
    strides = [math.prod(tensor.shape[dim + 1 :]) for dim in range(len(tensor.shape))]
    return tuple(
        sum(place * stride for place, stride in zip(places, strides, strict=True))
        for places in itertools.product(*left)
    )


def _holds(lie: Lie, index: int) -> bool:
    if isinstance(lie, Only):
        return index == lie.index
    return not isinstance(lie, Tied) or index in lie.names


def _shares(layout: Layout, tensor: Tensor, where: Mapping[str, int]) -> tuple[Share, ...]:
    left = spans(layout, tensor, where, tuple(layout.axes))
    elements = indices(tensor, left)
    placements: dict[str, PlacementKind] = {axis: kind_of(tensor.on.get(axis, Copy())) for axis in layout.axes}
    padding = max(0, tensor.padded - len(elements))
    shape = tuple(len(span) for span in left)
    return tuple(Share(tensor, name, shape, elements, placements, padding) for name in local_names(tensor, where))


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
