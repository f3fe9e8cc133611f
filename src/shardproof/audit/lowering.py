"""From the audit's stored plan to what a lowering of the map sees."""

from __future__ import annotations

import itertools

from shardproof.failures.lowering import PADDING, Cell, Holds, Piece
from shardproof.records.audit import FixturePlan, LayoutPlan, PiecePlan


def cell_of(layout: LayoutPlan, fixture: FixturePlan) -> Cell:
    """One planned call as the map's lowerings see it.

    Padding is appended to a piece as elements with the index PADDING and gradient 0; a parameter that has no
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
    return Cell(axes=dict(layout.axes), ranks=ranks, limit=fixture.limit)


def _piece(piece: PiecePlan, dtype: str, fixture: FixturePlan) -> Piece:
    gradient = fixture.gradients[piece.tensor]
    values = (*(gradient[index] for index in piece.indices), *(0.0 for _ in range(piece.padding)))
    return Piece(
        name=piece.entry,
        tensor=piece.tensor,
        on=dict(piece.placements),
        told=piece.told,
        dtype=dtype,
        indices=(*piece.indices, *(PADDING for _ in range(piece.padding))),
        values=None if piece.rank in fixture.absent.get(piece.tensor, ()) else values,
    )
