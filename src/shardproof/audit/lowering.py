"""From the audit's stored plan to what a lowering of the map sees."""

from __future__ import annotations

import dataclasses
import itertools

from shardproof.failures.lowering import PADDING, Cell, Holds, Piece
from shardproof.records.audit import FixturePlan, LayoutPlan, PiecePlan


def cell_of(layout: LayoutPlan, fixture: FixturePlan) -> Cell:
    """One planned call as the map's lowerings see it.

    Padding is appended to a piece as elements with the index PADDING and what lies there; a parameter that has no
    gradient on a rank in this call has values None there.
    """
    dtypes = {tensor.name: tensor.dtype for tensor in layout.tensors}
    places = itertools.product(*(range(size) for size in layout.axes.values()))
    ranks = tuple(
        Holds(
            at=dict(zip(layout.axes, place, strict=True)),
            pieces=tuple(_piece(piece, dtypes[piece.tensor], fixture) for piece in layout.pieces if piece.rank == rank),
        )
        for rank, place in enumerate(places)
    )
    return Cell(axes=dict(layout.axes), ranks=ranks, limit=fixture.limit, norm_type=fixture.norm_type)


def _piece(piece: PiecePlan, dtype: str, fixture: FixturePlan) -> Piece:
    gradient = fixture.gradients[piece.tensor]
    values = (*(gradient[index] for index in piece.indices), *(piece.stale for _ in range(piece.padding)))
    return Piece(
        name=piece.entry,
        tensor=piece.tensor,
        on=dict(piece.placements),
        told=piece.told,
        dtype=dtype,
        indices=(*piece.indices, *(PADDING for _ in range(piece.padding))),
        values=None if piece.rank in fixture.absent.get(piece.tensor, ()) else values,
    )


def padding_counted(cell: Cell) -> Cell:
    """The same cell as a program sees it that takes padding for gradient; the cell itself where there is none.

    A padding element becomes an element of the tensor behind its last one; copies of a buffer pad alike.
    """
    if all(PADDING not in piece.indices for rank in cell.ranks for piece in rank.pieces):
        return cell
    behind = 1 + max(index for rank in cell.ranks for piece in rank.pieces for index in piece.indices)
    longest = max(len(piece.indices) for rank in cell.ranks for piece in rank.pieces)
    ranks = tuple(
        dataclasses.replace(rank, pieces=tuple(_counted(piece, rank, cell, behind, longest) for piece in rank.pieces))
        for rank in cell.ranks
    )
    return dataclasses.replace(cell, ranks=ranks)


def _counted(piece: Piece, rank: Holds, cell: Cell, behind: int, longest: int) -> Piece:
    place = 0
    for axis, size in cell.axes.items():
        place = place * size + (0 if piece.on[axis] == "replicate" else rank.at[axis])
    indices = tuple(
        behind + place * longest + position if index == PADDING else index
        for position, index in enumerate(piece.indices)
    )
    return dataclasses.replace(piece, indices=indices)
