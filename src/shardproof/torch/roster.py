"""The tensors of a plan in columns, so that each step looks at all of them with a few calls in C.

A turn of a Python loop that asks one tensor a dozen questions costs 4 us; a pass of `map` over one attribute 50 ns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import compress, repeat
from operator import attrgetter, is_, is_not
from typing import Any
from weakref import ReferenceType

from torch import Tensor

from shardproof.layout import Identity, Share
from shardproof.torch.naming import is_dtensor
from shardproof.torch.packet import WORD
from shardproof.torch.reading import Read

_SHAPE, _DTYPE, _REQUIRES_GRAD = attrgetter("shape"), attrgetter("dtype"), attrgetter("requires_grad")
SPEC = attrgetter("_spec")
"""What a DTensor lies like: one object for as long as nobody lays it out anew."""

PATTERNS = 16
"""How many patterns of present gradients are remembered; a model with routed experts may have a new one each step."""


@dataclass(frozen=True)
class Held:
    """One tensor of the plan: a weak reference, what was read of it, and what it looked like then."""

    ref: ReferenceType[Tensor]
    read: Read
    share: Share
    looks: tuple[Any, ...]
    weight: int
    bucket: int = 0
    reduces: bool = False

    @property
    def name(self) -> str:
        return self.read.listed.name


def looks(tensor: Tensor) -> tuple[Any, ...]:
    """What must not change while a plan holds: shape, dtype, requires_grad, placement."""
    spec = (tensor.device_mesh, tensor.placements) if is_dtensor(tensor) else None  # type: ignore[attr-defined]
    return (tensor.shape, tensor.dtype, tensor.requires_grad, spec)


def same(tensor: Tensor, looked: tuple[Any, ...]) -> bool:
    """Whether a tensor still looks as it did; placements are one object for as long as nobody lays it out anew."""
    shape, dtype, requires_grad, spec = looked
    if tensor.shape != shape or tensor.dtype != dtype or tensor.requires_grad != requires_grad:
        return False
    if spec is None:
        return not is_dtensor(tensor)
    if not is_dtensor(tensor):
        return False
    mesh, placements = tensor.device_mesh, tensor.placements  # type: ignore[attr-defined]
    return (mesh is spec[0] or mesh == spec[0]) and (placements is spec[1] or placements == spec[1])


def slice_weight(identity: Identity, share: Share) -> int:
    """A random 64-bit number for one slice: the same on all ranks that hold it."""
    return int.from_bytes(blake2b(f"{identity}\0{share.owner}".encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Selection:
    """What follows from which tensors have a gradient, and is the same for as long as the same ones have.

    `counts`: whether an entry stands for its slice on this rank, as one of several tied names does. `owned`: by
    bucket, the entries that this rank adds up; `copies`: those that it only looks at. `presence`: this rank's term of
    a sum that is zero when every slice has a gradient on all its ranks or on none: the owner of a slice with c
    copies adds c - 1 times the slice's weight, every other rank subtracts it once.
    """

    counts: tuple[bool, ...]
    owned: tuple[tuple[int, ...], ...]
    copies: tuple[int, ...]
    presence: int


def present(values: Iterable[Tensor | None]) -> bytes:
    """One byte for each entry: 1 where there is a gradient."""
    return bytes(map(is_not, values, repeat(None)))


class Roster:
    """The tensors of a plan on one rank; `rank` is its global number, `buckets` how many sums the plan keeps.

    `plain`: no entry is a DTensor; `whole`: all are, or none. `ranges`: entries that are ranges of flat buffers.
    `complexes`: entries of complex numbers. `reduces`: some gradients may be summands. `placed`: by entry, the layout
    of a DTensor gradient that was last found to be its parameter's. `apart`: where gradients lay when last seen
    to share no memory.
    """

    def __init__(self, held: Sequence[Held], rank: int, buckets: int) -> None:
        self.held, self.rank, self.buckets = tuple(held), rank, buckets
        self._refs = [each.ref for each in held]
        self._shapes, self._dtypes, self._requires_grad = ([each.looks[place] for each in held] for place in range(3))
        self.dtensors = [each.looks[3] is not None for each in held]
        self.plain = not any(self.dtensors)
        self.whole = self.plain or all(self.dtensors)
        self.reduces = any(each.reduces or each.read.partial is not None for each in held)
        self.ranges = [index for index, each in enumerate(held) if each.read.counted is not None]
        self.complexes = [index for index, dtype in enumerate(self._dtypes) if dtype.is_complex]
        self.placed: list[Any] = [None] * len(held)
        self.apart: object = None
        self._specs: list[Any] = []
        self._types: list[type] = []
        self._selections: dict[bytes, Selection] = {}

    def tensors(self) -> list[Tensor | None]:
        """The tensors themselves; None for one that was freed."""
        return [each() for each in self._refs]

    def fits(self, tensors: Sequence[Tensor | None]) -> bool:
        """Whether all of them live and look as they did when the plan was built."""
        types = list(map(type, tensors))
        if types != self._types:
            # The first look, or some tensor was freed or turned into another kind.
            if not self._alike(tensors):
                return False
            self._types = types
        return (
            list(map(_SHAPE, tensors)) == self._shapes
            and list(map(_DTYPE, tensors)) == self._dtypes
            and list(map(_REQUIRES_GRAD, tensors)) == self._requires_grad
            and self._lie_as_before(tensors)
        )

    def _alike(self, tensors: Sequence[Tensor | None]) -> bool:
        pairs = zip(tensors, self.held, strict=True)
        return all(tensor is not None and same(tensor, each.looks) for tensor, each in pairs)

    def _lie_as_before(self, tensors: Sequence[Any]) -> bool:
        if self.plain:
            return True
        specs = list(map(SPEC, tensors if self.whole else compress(tensors, self.dtensors)))
        if len(specs) == len(self._specs) and all(map(is_, specs, self._specs)):
            return True
        if not self._alike(tensors):
            return False
        self._specs = specs
        return True

    def select(self, values: Iterable[Tensor | None]) -> Selection:
        """What to do with these gradients, None for none."""
        pattern = present(values)
        found = self._selections.get(pattern)
        if found is None:
            if len(self._selections) >= PATTERNS:
                self._selections.clear()
            found = self._selections[pattern] = self._select(pattern)
        return found

    def _select(self, pattern: bytes) -> Selection:
        counts, seen = [], set()
        for each, here in zip(self.held, pattern, strict=True):
            # A tied tensor may stand here under several names: the first that has a gradient stands for the slice.
            counts.append(bool(here) and each.weight not in seen)
            if here:
                seen.add(each.weight)
        owns = [count and each.share.owner == self.rank for each, count in zip(self.held, counts, strict=True)]
        presence = sum(
            each.weight * (len(each.share.copies) - 1 if each.share.owner == self.rank else -1)
            for each, count in zip(self.held, counts, strict=True)
            if count and len(each.share.copies) > 1
        )
        return Selection(tuple(counts), *self.split(pattern, owns), presence % WORD)

    def split(self, pattern: bytes, owns: Sequence[bool]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """The entries that this rank adds up, by bucket, and those that it only looks at."""
        owned: list[list[int]] = [[] for _ in range(self.buckets)]
        for index in compress(range(len(self.held)), owns):
            owned[self.held[index].bucket].append(index)
        copies = (index for index, here in enumerate(pattern) if here and not owns[index])
        return tuple(map(tuple, owned)), tuple(copies)
