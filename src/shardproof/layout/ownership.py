"""Who counts what: each logical element is counted by exactly one rank.

A slice that several ranks hold is counted by the first of them, in the order of the mesh, that lists it; a
slice that one rank holds is counted by that rank.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardproof.layout.coverage import Claim, claim
from shardproof.layout.slices import Slice
from shardproof.layout.tensors import Identity, Listed

Holders = Callable[[int, Identity], Sequence[str]]
"""Which names of a logical tensor a rank lists, in order of ownership; empty for none."""


@dataclass(frozen=True)
class Share:
    """Who holds the slice that a rank lists under one name.

    `copies`: the ranks that list the same slice, in mesh order, `owner` first. `first`: no other entry of this
    rank stands for the same slice before this one, as the second name of a tied tensor would.
    """

    owner: int
    copies: tuple[int, ...]
    first: bool
    owned: bool


def share(tensor: Listed, rank: int, holders: Holders) -> Share:
    """Return who holds and who counts the slice that `rank` lists as `tensor`.

    >>> from shardproof.layout import Listed, Mesh, Placement
    >>> mesh = Mesh(("dp", "tp"), (2, 2), (0, 1, 2, 3))
    >>> norm = Listed("norm", mesh, (Placement.SHARD, Placement.REPLICATE))
    >>> share(norm, 3, lambda rank, identity: ("norm",))
    Share(owner=2, copies=(2, 3), first=True, owned=False)
    """
    identity = tensor.identity(rank)
    copies = tuple(_copies(tensor, rank, identity, holders))
    first = holders(rank, identity)[0] == tensor.name
    return Share(copies[0], copies, first, owned=first and copies[0] == rank)


def _copies(tensor: Listed, rank: int, identity: Identity, holders: Holders) -> Iterator[int]:
    """The ranks that list the same slice, in mesh order; the first of them owns it."""
    return (member for member in tensor.mesh.each_along(rank, tensor.copy_axes) if holders(member, identity))


def _owns(tensor: Listed, rank: int, identity: Identity, holders: Holders) -> bool:
    """`share(...).owned` without going through all copies."""
    return holders(rank, identity)[0] == tensor.name and next(_copies(tensor, rank, identity, holders)) == rank


def holders_of(lists: Mapping[int, Iterable[Listed]]) -> Holders:
    """Index what every rank lists; the names of a tied tensor come in the order of its tie."""
    found: dict[tuple[int, Identity], list[str]] = {}
    for rank, tensors in lists.items():
        for tensor in tensors:
            found.setdefault((rank, tensor.identity(rank)), []).append(tensor.name)
    ties = {tensor.name: tensor.tie.index(tensor.name) for ts in lists.values() for tensor in ts if tensor.tie}
    index = {key: tuple(sorted(names, key=lambda name: ties.get(name, 0))) for key, names in found.items()}
    return lambda rank, identity: index.get((rank, identity), ())


@dataclass(frozen=True)
class Gap:
    """A logical tensor that is not covered exactly once: `counted` of `numel` elements are owned."""

    identity: Identity
    counted: int
    numel: int

    def __str__(self) -> str:
        if self.counted == self.numel:
            return f"{self.identity}: {self.numel} elements are owned, but not each exactly once"
        word = "left out" if self.counted < self.numel else "counted twice"
        return f"{self.identity}: {self.counted} of {self.numel} elements are owned, some are {word}"


def claims(tensors: Iterable[Listed], rank: int, holders: Holders) -> dict[Identity, Claim]:
    """What `rank` claims of each logical tensor that it lists and whose shape is known.

    Where it is unknown which elements it holds, it claims their number only.
    """
    claimed: dict[Identity, Claim] = {}
    for tensor in tensors:
        if tensor.shape is None or (tensor.part is None and tensor.count is None):
            continue
        identity = tensor.identity(rank)
        mine = claimed.get(identity, Claim())
        owns = _owns(tensor, rank, identity, holders)
        claimed[identity] = mine + _claim(tensor, identity) if owns else mine
    return claimed


def _claim(tensor: Listed, identity: Identity) -> Claim:
    return Claim(tensor.count or 0) if tensor.part is None else claim(str(identity), tensor.part)


def gaps(summed: Mapping[Identity, Claim], shapes: Mapping[Identity, tuple[int, ...]]) -> list[Gap]:
    """The logical tensors whose claims, summed over all ranks, are not those of the whole tensor."""
    found = []
    for identity, shape in shapes.items():
        whole = claim(str(identity), Slice.whole(shape))
        if summed.get(identity, Claim()) != whole:
            found.append(Gap(identity, summed.get(identity, Claim()).count, whole.count))
    return found


def prove(lists: Mapping[int, Collection[Listed]]) -> list[Gap]:
    """Return what is not covered exactly once in a run whose ranks list these tensors; empty when proved.

    The pure model of what a plan proves collectively. A tensor of which some rank's slice
    is unknown is declared, not proved, and never in the result.

    >>> from shardproof.layout import Listed, Placement, Slice, line
    >>> def half(rank, start, stop):
    ...     return Listed("w", line([0, 1]), (Placement.SHARD,), Slice.flat(start, stop), (4,))
    >>> prove({0: [half(0, 0, 2)], 1: [half(1, 2, 4)]})
    []
    >>> [str(gap) for gap in prove({0: [half(0, 0, 2)], 1: [half(1, 3, 4)]})]
    ['w: 3 of 4 elements are owned, some are left out']
    """
    holders = holders_of(lists)
    summed: dict[Identity, Claim] = {}
    shapes: dict[Identity, tuple[int, ...] | None] = {}
    for rank, tensors in lists.items():
        for identity, mine in claims(tensors, rank, holders).items():
            summed[identity] = summed.get(identity, Claim()) + mine
        for tensor in tensors:
            identity = tensor.identity(rank)
            # Once unknown it stays unknown, whatever other ranks say.
            known = tensor.shape if tensor.part is not None else None
            shapes[identity] = known if shapes.get(identity, known) is not None else None
    return gaps(summed, {identity: shape for identity, shape in shapes.items() if shape is not None})
