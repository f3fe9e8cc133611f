"""Building blocks of checks about clipping: runs as the contract clip-run has them, and their exact results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from shardproof.failures.exact import Exact, root, rounded

Plain = dict[str, Any]


def clipped(values: Iterable[int], limit: Exact, square: Exact) -> list[float]:
    """Each value times min(1, limit / root of square), exactly, then rounded to 12 decimals.

    >>> clipped([3, -4], 1, 25), clipped([3, -4], 5, 25), clipped([1], 1, 2)
    ([0.6, -0.8], [3.0, -4.0], [0.707106781187])
    """
    if Fraction(limit) ** 2 >= square:
        return [rounded(value) for value in values]
    sizes = [(value, root(Fraction(value * value) * Fraction(limit) ** 2 / Fraction(square))) for value in values]
    return [-size if value < 0 else size for value, size in sizes]


def piece(
    tensor: str,
    values: Sequence[int],
    lies: Mapping[str, str] | None = None,
    *,
    start: int = 0,
    mesh: Sequence[str] = (),
    tied: bool = False,
) -> Plain:
    """One parameter as a rank holds it: elements start, start + 1, ... of `tensor`.

    Args:
        tensor: id of the logical tensor.
        values: the gradient of these elements.
        lies: axis -> shard, replicate or distinct, for every axis of the run.
        start: flat index of the first element.
        mesh: the axes that the tensor's own metadata describes.
        tied: whether the tensor exists as several parameters.
    """
    elements = list(range(start, start + len(values)))
    return {
        "tensor": tensor,
        "elements": elements,
        "lies": dict(lies or {}),
        "mesh": list(mesh),
        "tied": tied,
        "values": list(values),
    }


def cut(tensor: str, slices: Sequence[Sequence[int]], axis: str, *, mesh: Sequence[str] = ()) -> list[Plain]:
    """One tensor cut along the only axis of a run: a piece for each rank.

    >>> [each["elements"] for each in cut("w", [[3], [4, 0]], "tp")]
    [[0], [1, 2]]
    """
    starts = [sum(map(len, slices[:index])) for index in range(len(slices))]
    pairs = zip(starts, slices, strict=True)
    return [piece(tensor, values, {axis: "shard"}, start=start, mesh=mesh) for start, values in pairs]


def line(axis: str, pieces: Sequence[Sequence[Plain]], limit: Exact, group: Sequence[str] = ()) -> Plain:
    """A run on one axis: pieces[r] is what rank r holds."""
    ranks = [{"at": {axis: index}, "pieces": list(held)} for index, held in enumerate(pieces)]
    return {"axes": {axis: len(ranks)}, "limit": limit, "group": list(group), "ranks": ranks}


def grid(
    axes: Mapping[str, int], pieces: Mapping[tuple[int, ...], Sequence[Plain]], limit: Exact, group: Sequence[str]
) -> Plain:
    """A run on several axes: pieces by coordinates, in the order of `axes`; the ranks in the order of `pieces`."""
    ranks = [{"at": dict(zip(axes, at, strict=True)), "pieces": list(held)} for at, held in pieces.items()]
    return {"axes": dict(axes), "limit": limit, "group": list(group), "ranks": ranks}


def ended(run: Plain, square: Exact) -> list[Plain]:
    """What the contract clip-run asks for, given the square of the global norm."""
    norm, limit = root(square), run["limit"]
    return [
        {"norm": norm, "values": [clipped(each["values"], limit, square) for each in rank["pieces"]]}
        for rank in run["ranks"]
    ]


def sharded(axis: str, slices: Sequence[Sequence[int]], limit: Exact, group: Sequence[str] = ()) -> Plain:
    """A run of one tensor that is cut along one axis: slices[r] is what rank r holds."""
    return line(axis, [[each] for each in cut("weight", slices, axis)], limit, group)


def turned(items: Sequence[Any], n: int) -> list[Any]:
    """The items, the first n moved to the end, again and again: another order of ranks for each variant.

    >>> turned([1, 2, 3], 4)
    [2, 3, 1]
    """
    start = n % len(items) if items else 0
    return [*items[start:], *items[:start]]


def check(label: str, run: Plain, square: Exact) -> tuple[str, tuple[Plain], list[Plain]]:
    """A check of clip-run: its label, arguments, and what the contract asks for, given the norm's square."""
    return label, (run,), ended(run, square)
