"""Who counts what in a cell, and how a call that scales all of it ends: shared by the lowerings of some contracts."""

from __future__ import annotations

import math
from collections.abc import Callable

from shardproof.failures.axes import Element, elements, filled, pieces
from shardproof.failures.lowering import Cell, Ended, Holds


def finite(cell: Cell) -> bool:
    """Whether every gradient of the cell is a finite number."""
    return all(math.isfinite(value) for piece in pieces(cell) for value in piece.values or ())


def whole(cell: Cell) -> bool:
    """Whether no gradient of the cell is a summand, so that every element has one value."""
    return not any(how == "partial" for piece in pieces(cell) for how in piece.on.values())


def gradient(cell: Cell) -> dict[Element, float]:
    """Every logical element with its gradient, once, in the order of the ranks."""
    return {element: value for piece in pieces(cell) for element, value in elements(piece)}


def owned(cell: Cell, *, last: bool = False) -> list[dict[Element, float]]:
    """For each rank the elements that it is the first (or last) to hold, with their gradients.

    >>> from shardproof.failures.lowering import Piece
    >>> copy = Piece("w", "w", {"dp": "replicate"}, (), "float32", (0,), (3.0,))
    >>> owned(Cell({"dp": 2}, (Holds({"dp": 0}, (copy,)), Holds({"dp": 1}, (copy,))), 1.0))
    [{('w', 0): 3.0}, {}]
    """
    shards: list[dict[Element, float]] = [{} for _ in cell.ranks]
    seen: set[Element] = set()
    for index in range(len(cell.ranks))[:: -1 if last else 1]:
        held = dict(pair for piece in cell.ranks[index].pieces for pair in elements(piece))
        shards[index] = {element: value for element, value in held.items() if element not in seen}
        seen.update(held)
    return shards


def has_gradients(rank: Holds) -> bool:
    """Whether a rank holds the gradient of at least one element."""
    return any(elements(piece) for piece in rank.pieces)


def has_tensors(rank: Holds) -> bool:
    """Whether a parameter of a rank has a gradient, of zero elements or more."""
    return any(piece.values is not None for piece in rank.pieces)


def has_parameters(rank: Holds) -> bool:
    """Whether a rank has a parameter, with a gradient or without."""
    return bool(rank.pieces)


def counting(cell: Cell, counts: Callable[[Holds], bool]) -> list[int]:
    """The ranks that own elements, and those that have nothing of what counts; ranks with nothing but copies are out.

    A rank that holds copies only does as their owner does; one that holds nothing may do something else.
    """
    return [index for index, shard in enumerate(owned(cell)) if shard or not counts(cell.ranks[index])]


def factor_of(norm: float, limit: float) -> float:
    """limit / norm, held at one, as array libraries compute it: NaN stays NaN; one where the norm is zero."""
    quotient = limit / norm if norm else 1.0
    return 1.0 if quotient > 1.0 else quotient


def scaled(rank: Holds, norm: float, factor: float) -> Ended:
    """A call that returns `norm` and multiplies every gradient of a rank by `factor`; padding stays."""
    held = {element: value for piece in rank.pieces for element, value in elements(piece)}
    return Ended(norm=norm, values=tuple(filled(piece, lambda each: held[each] * factor) for piece in rank.pieces))


def clipped(cell: Cell, norm: float) -> list[Ended]:
    """A call that returns `norm` on every rank and clips by it."""
    return [scaled(rank, norm, factor_of(norm, cell.limit)) for rank in cell.ranks]
