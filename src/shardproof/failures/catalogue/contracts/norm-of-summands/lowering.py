"""A layout in which every tensor is a pending sum along one axis: the summands are what the places on it hold."""

from shardproof.failures.axes import elements, pieces
from shardproof.failures.owned import clipped, finite


def readings(cell):
    axes = {tuple(axis for axis, how in piece.on.items() if how == "partial") for piece in pieces(cell)}
    if not (finite(cell) and cell.norm_type == 2 and cell.limit >= 0 and len(axes) == 1):
        return {}
    axis = axes.pop()
    if len(axis) != 1:
        return {}
    summands = summands_along(cell, axis[0])
    return {"a summand is all that lies at one place of the axis": (summands, cell.limit)}


def summands_along(cell, axis):
    """For each place on the axis every element once; one that has no gradient there adds nothing."""
    places = [{} for _ in range(cell.axes[axis])]
    for rank in cell.ranks:
        for piece in rank.pieces:
            places[rank.at[axis]].update(elements(piece))
    names = sorted({element for place in places for element in place})
    return [[place.get(element, 0.0) for element in names] for place in places]


def predicted(cell, result):
    """Each rank's summand is scaled where it lies."""
    return clipped(cell, result["norm"])
