"""What all ranks list, agreed on collectively: who counts each slice, and the proof that all is covered once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import torch

from shardproof.errors import InvalidTypeError, PlacementError, ShardproofError
from shardproof.layout import FIELD, Claim, Gap, Identity, Listed, Mesh, Placement, Share, claims, gaps, share
from shardproof.torch.reading import Read
from shardproof.torch.world import MeshLike, World, add_up, broadcast, coordinates, gather, grid


@dataclass(frozen=True)
class Line:
    """One logical tensor as ranks tell each other: equal on all ranks that hold a part of it, but for its name."""

    identity: Identity
    name: str
    shape: tuple[int, ...] | None
    axes: tuple[tuple[str, int, str], ...]
    tie: tuple[str, ...]
    group: str
    summed: str = ""


@dataclass(frozen=True)
class Catalog:
    """The tensors of all ranks.

    `reads` and `shares` are this rank's, in the order of its list; `unproved` are logical tensors of which some
    slice is unknown; `digest` is equal on all ranks.
    """

    here: World
    reads: tuple[Read, ...]
    shares: tuple[Share, ...]
    unproved: frozenset[Identity]
    digest: str
    lines: dict[Identity, Line] = field(repr=False)


def catalog(
    here: World,
    mesh: MeshLike | None,
    read: Callable[[Mesh | None], Sequence[Read]],
    check: Callable[[Collection[str]], None],
) -> Catalog:
    """Read this rank's tensors, tell the other ranks, and prove that every element is counted exactly once.

    `check` is told the names of all tensors of all ranks, and may refuse what the caller says of them.

    A collective call of all ranks of `here`; an error on one rank is raised on all. Traffic per rank grows with
    the number of different lists (one for each pipeline stage and expert rank) times their length.

    Raises PlacementError when a rank cannot say how a tensor lies, when ranks contradict each other, or when
    the owned slices do not cover a tensor exactly once.
    """
    told = gather(here, _attempt(lambda: coordinates(mesh)))
    _raise_together(here, told)
    mine = _attempt(lambda: tuple(read(grid(mesh, here, told))))
    lines = _lines(mine, here.rank) if not isinstance(mine, Exception) else ()
    digest = _digest(lines)
    answers = gather(here, mine if isinstance(mine, Exception) else digest)
    _raise_together(here, answers)
    assert not isinstance(mine, Exception)
    lists = {digest: lines}
    if len(set(answers)) > 1:
        # One rank of each kind tells; where all list the same, as copies and shards do, nothing has to be sent.
        lists = {
            each: broadcast(here, lines, answers.index(each), known=each == digest) for each in dict.fromkeys(answers)
        }
    known = _merged(lists, here, answers)
    index = {each: _names(lists[each]) for each in lists}
    lister = dict(zip(here.ranks, answers, strict=True))

    def holders(rank: int, identity: Identity) -> tuple[str, ...]:
        return index[lister[rank]].get(identity, ())

    listed = [each.listed for each in mine]
    shares = tuple(share(each, here.rank, holders) for each in listed)

    def checked() -> None:
        _check_copies_listed(here, listed, shares, lister, lists)
        if any(lists.values()):
            check({line.name for lines in lists.values() for line in lines})

    _raise_together(here, gather(here, _attempt(checked)))
    unproved = _prove(here, listed, known, holders)
    return Catalog(here, mine, shares, unproved, _digest(tuple(sorted(lists))), known)


def _attempt(call: Callable[[], Any]) -> Any:
    """The result, or the error that a caller's input caused: it has to reach the other ranks first."""
    try:
        return call()
    except ShardproofError as error:
        return error
    except Exception as error:  # whatever a caller's object raises while it is read must reach the other ranks
        return unreadable(error)


def unreadable(error: Exception) -> InvalidTypeError:
    """What a caller's argument raised while it was read, as an error of ours that can travel to other ranks."""
    return InvalidTypeError(f"An argument could not be read: {type(error).__name__}: {error}")


def _raise_together(here: World, answers: Sequence[object]) -> None:
    """Raise on every rank what was raised on any, this rank's own error first."""
    errors = [(rank, each) for rank, each in zip(here.ranks, answers, strict=True) if isinstance(each, Exception)]
    if not errors:
        return
    rank, error = next((pair for pair in errors if pair[0] == here.rank), errors[0])
    if here.size == 1:
        raise error
    others = "" if len(errors) == 1 else f" (also on ranks {[each for each, _ in errors if each != rank]})"
    raise type(error)(f"Rank {rank}{others}: {error}")


def _lines(reads: Sequence[Read], rank: int) -> tuple[Line, ...]:
    return tuple(_line(each, rank) for each in reads)


def _line(each: Read, rank: int) -> Line:
    listed = each.listed
    axes = zip(listed.mesh.axes, listed.mesh.sizes, (kind.value for kind in listed.placements), strict=True)
    return Line(
        listed.identity(rank), listed.name, listed.shape, tuple(axes), listed.tie, each.group, str(each.partial or "")
    )


def _digest(lines: object) -> str:
    return blake2b(repr(lines).encode(), digest_size=16).hexdigest()


def _names(lines: Sequence[Line]) -> dict[Identity, tuple[str, ...]]:
    found: dict[Identity, tuple[str, ...]] = {}
    for line in lines:
        names = (*found.get(line.identity, ()), line.name)
        found[line.identity] = tuple(sorted(names, key=line.tie.index)) if line.tie else names
    return found


def _merged(lists: dict[str, tuple[Line, ...]], here: World, answers: Sequence[str]) -> dict[Identity, Line]:
    """One line for each logical tensor of the run; refuses what two ranks say differently."""
    found: dict[Identity, Line] = {}
    said_by: dict[Identity, str] = {}
    for each, lines in lists.items():
        for line in lines:
            first = found.setdefault(line.identity, line)
            said_by.setdefault(line.identity, each)
            if replace(first, name="") != replace(line, name=""):
                ranks = [here.ranks[answers.index(digest)] for digest in (said_by[line.identity], each)]
                raise PlacementError(
                    f"{line.identity}: rank {ranks[0]} says {_said(first)}, rank {ranks[1]} says {_said(line)}. "
                    'If these are different tensors under one name, say "distinct" on the axis between them.'
                )
    return found


def _said(line: Line) -> str:
    axes = ", ".join(f"{axis} ({size}): {kind}" for axis, size, kind in line.axes)
    tie, group = f", tied {line.tie}" if line.tie else "", f", group {line.group}" if line.group else ""
    return f"shape {line.shape}, {axes}{tie}{group}{f', {line.summed}' if line.summed else ''}"


def _check_copies_listed(
    here: World,
    listed: Sequence[Listed],
    shares: Sequence[Share],
    lister: Mapping[int, str],
    lists: Mapping[str, Sequence[Line]],
) -> None:
    """A copy that is said to lie on a rank must be listed there, or it would be counted under each of its names.

    A rank that lists nothing holds nothing; a tied tensor says itself that it is elsewhere under another name. Summands
    are another matter: every rank of their sum takes part in it.
    """
    for each, part in zip(listed, shares, strict=True):
        along = each.mesh.along(here.rank, each.copy_axes)
        summing = each.mesh.along(here.rank, each.axes_with(Placement.PARTIAL))
        needed = summing if each.tie else [rank for rank in along if lists[lister[rank]] or rank in summing]
        silent = [rank for rank in needed if rank not in part.copies]
        if silent:
            raise PlacementError(
                f"{each.name} is said to be copied on ranks {list(along[:16])}, but ranks {silent[:16]} do not list it "
                "under this name. Use the same names on every rank; say tied= for one tensor under two names, or "
                '"distinct" where other ranks do not hold it.'
            )


def _prove(
    here: World,
    listed: Sequence[Listed],
    known: dict[Identity, Line],
    holders: Callable[[int, Identity], Sequence[str]],
) -> frozenset[Identity]:
    """Add up what all ranks claim; returns the logical tensors that are declared only."""
    order = sorted(known, key=str)
    claimed = claims(listed, here.rank, holders)
    unknown = {each.identity(here.rank) for each in listed if each.part is None or each.shape is None}
    rows = [_row(claimed.get(identity, Claim()), identity in unknown) for identity in order]
    words = add_up(here, torch.tensor(rows, dtype=torch.int64, device="cpu").reshape(-1, 4)).tolist()
    summed = {
        identity: Claim(count, ((high << 31) + low) % FIELD)
        for identity, (count, high, low, _) in zip(order, words, strict=True)
    }
    unproved = frozenset(identity for identity, row in zip(order, words, strict=True) if row[3])
    shapes = {each: known[each].shape for each in order if each not in unproved}
    found = gaps(summed, {each: shape for each, shape in shapes.items() if shape is not None})
    found += _miscounted(summed, {each: known[each].shape for each in unproved})
    if found:
        raise PlacementError(_uncovered(here, found, listed, claimed))
    return unproved


def _miscounted(summed: dict[Identity, Claim], shapes: Mapping[Identity, tuple[int, ...] | None]) -> list[Gap]:
    """Declared tensors of known shape: which elements are owned is unknown, but their number has to be right."""
    counts = {each: (summed[each].count, math.prod(shape)) for each, shape in shapes.items() if shape is not None}
    return [Gap(each, count, numel) for each, (count, numel) in sorted(counts.items(), key=str) if count != numel]


def _row(claimed: Claim, unknown: bool) -> list[int]:
    # Two halves of the 61-bit weight: their sums over 2**31 ranks fit an int64, and can be reduced afterwards.
    return [claimed.count, claimed.weight >> 31, claimed.weight & (2**31 - 1), int(unknown)]


def _uncovered(here: World, found: list[Gap], listed: Sequence[Listed], claimed: dict[Identity, Claim]) -> str:
    """Name tensors and the ranks that claim them; a collective call, since all ranks found the same gaps."""
    wanted = {gap.identity for gap in found}
    mine = [
        (
            each.identity(here.rank),
            each.part.dims if each.part else None,
            claimed.get(each.identity(here.rank), Claim()).count,
        )
        for each in listed
        if each.identity(here.rank) in wanted
    ]
    told = gather(here, mine)
    text = []
    for gap in found[:5]:
        held = [
            f"rank {rank} holds {dims} and owns {count} elements"
            for rank, said in zip(here.ranks, told, strict=True)
            for identity, dims, count in said
            if identity == gap.identity
        ]
        text.append(f"{gap}; {'; '.join(held[:16]) or 'no rank holds it'}")
    more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
    return f"The slices do not cover each element exactly once: {'. '.join(text)}{more}. Correct placements or owned."
