"""A layout as a run: every group of axes that a program may sum over, whatever the tensors know of themselves."""

from shardproof.failures.axes import KNOWN, ROLES, clips, elements, exponent, filled, groups, pieces, times
from shardproof.failures.lowering import Ended

TIED = {"": False, "; tied names once": True}


def readings(cell):
    if not clips(cell):
        return {}
    tied, runs = tied_tensors(cell), {}
    again = any(len(held) != len(set(held)) for held in map(held_by, cell.ranks))
    named = {}
    for said, group, mesh_of in looks(cell):
        meshes = tuple(map(mesh_of, pieces(cell)))
        for more, once in TIED.items():
            key = (group, meshes, once and again)
            if key not in runs:
                runs[key] = (run_of(cell, group, meshes, tied, once=once),)
            # Equal runs are one object, so that whoever solves them may solve each once.
            named[said + more] = runs[key]
    return named


def looks(cell):
    """Groups, and what tensors know of themselves: name, axes of the group, the axes that a piece knows."""
    for name, group in groups(cell).items():
        for known, mesh_of in KNOWN.items():
            yield f"group: {name}; tensors know {known}", group, mesh_of
    # A program that is right but for one axis; copies along pp are tied tensors, which have programs of their own.
    for role in ROLES:
        if role != "pp":
            group = tuple(axis for axis in cell.axes if axis == role)
            others = tuple(axis for axis in cell.axes if axis not in group)
            yield f"group: the axis {role}; tensors know what it leaves out", group, lambda piece, known=others: known


def held_by(rank):
    return [element for piece in rank.pieces for element, _ in elements(piece)]


def tied_tensors(cell):
    names = {}
    for piece in pieces(cell):
        names.setdefault(piece.tensor, set()).add(piece.name)
    return {tensor for tensor, each in names.items() if len(each) > 1}


def run_of(cell, group, meshes, tied, *, once):
    power, following = exponent(cell), iter(meshes)
    ranks = []
    for rank in cell.ranks:
        held, seen = [], set()
        for piece, mesh in zip(rank.pieces, following):
            pairs = [(key, value) for key, value in elements(piece) if not (once and key in seen)]
            seen.update(key for key, _ in pairs)
            if piece.values is not None:
                held.append(piece_of(piece, pairs, mesh, tied, power))
        ranks.append({"at": dict(rank.at), "pieces": held})
    return {"axes": dict(cell.axes), "limit": times(cell.limit, power), "group": list(group), "ranks": ranks}


def piece_of(piece, pairs, mesh, tied, power):
    return {
        "tensor": piece.tensor,
        "elements": [index for (_, index), _ in pairs],
        "lies": dict(piece.on),
        "mesh": list(mesh),
        "tied": piece.tensor in tied,
        "values": [times(value, power) for _, value in pairs],
    }


def predicted(cell, result):
    power = -exponent(cell)
    return [
        Ended(norm=times(ended["norm"], power), values=after(rank, ended["values"], power))
        for rank, ended in zip(cell.ranks, result)
    ]


def after(rank, given, power):
    """The values of each piece, padding as it was; pieces without a gradient were not in the run.

    A name whose elements another name brought into the run ends as that one does.
    """
    rows, found = iter(given), {}
    for piece in rank.pieces:
        if piece.values is not None:
            keys, row = [key for key, _ in elements(piece)], next(rows)
            keys = keys if len(keys) == len(row) else [key for key in keys if key not in found]
            found.update(zip(keys, (times(value, power) for value in row)))
    return tuple(filled(piece, found.__getitem__) for piece in rank.pieces)
