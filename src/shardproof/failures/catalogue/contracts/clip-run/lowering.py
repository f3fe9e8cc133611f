"""A layout as a run: every group of axes that a program may sum over, whatever the tensors know of themselves."""

from shardproof.failures.axes import KNOWN, clips, elements, exponent, groups, pieces, spread, times
from shardproof.failures.lowering import Ended


def readings(cell):
    if not clips(cell):
        return {}
    tied, runs = tied_tensors(cell), {}
    named = {}
    for known, mesh_of in KNOWN.items():
        for name, group in groups(cell).items():
            key = (group, tuple(mesh_of(piece) for piece in pieces(cell)))
            if key not in runs:
                runs[key] = (run_of(cell, group, mesh_of, tied),)
            # Equal runs are one object, so that whoever solves them may solve each once.
            named[f"group: {name}; tensors know {known}"] = runs[key]
    return named


def tied_tensors(cell):
    names = {}
    for piece in pieces(cell):
        names.setdefault(piece.tensor, set()).add(piece.name)
    return {tensor for tensor, each in names.items() if len(each) > 1}


def run_of(cell, group, mesh_of, tied):
    power = exponent(cell)
    ranks = [
        {
            "at": dict(rank.at),
            "pieces": [
                piece_of(piece, mesh_of(piece), tied, power) for piece in rank.pieces if piece.values is not None
            ],
        }
        for rank in cell.ranks
    ]
    return {"axes": dict(cell.axes), "limit": times(cell.limit, power), "group": list(group), "ranks": ranks}


def piece_of(piece, mesh, tied, power):
    return {
        "tensor": piece.tensor,
        "elements": [index for (_, index), _ in elements(piece)],
        "lies": dict(piece.on),
        "mesh": list(mesh),
        "tied": piece.tensor in tied,
        "values": [times(value, power) for _, value in elements(piece)],
    }


def predicted(cell, result):
    power = -exponent(cell)
    return [
        Ended(norm=times(ended["norm"], power), values=after(rank, iter(ended["values"]), power))
        for rank, ended in zip(cell.ranks, result)
    ]


def after(rank, given, power):
    """The values of each piece, padding as it was; pieces without a gradient were not in the run."""
    return tuple(None if piece.values is None else spread(piece, iter(next(given)), power) for piece in rank.pieces)
