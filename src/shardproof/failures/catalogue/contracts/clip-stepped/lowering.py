"""A layout as the tensors of one step: what the call is handed, or scales, is not all that is looked at afterwards."""

from shardproof.failures.axes import clips, elements, exponent, filled, pieces, times
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import owned

COPIED = {
    "the call scales copies of all tensors": lambda piece: True,
    "the call scales copies of tensors that are not float32": lambda piece: piece.dtype != "float32",
    "the call scales copies of DTensors": lambda piece: bool(piece.told),
    "the call scales copies of what is no DTensor": lambda piece: not piece.told,
}
"""Which gradients are looked at in a buffer of their own, which the call does not reach."""

# Stands before what the ranks hold, where the tensors of a run are those of ranks; no logical tensor stands as empty.
BY_RANK = {"grad": [], "main": None}


def readings(cell):
    if not clips(cell):
        return {}
    said = {name: (run_of(cell, by_tensor(cell, copied)),) for name, copied in COPIED.items()}
    handed = run_of(cell, by_tensor(cell, lambda piece: False)) | {"given": "iterator"}
    return said | {
        "the tensors come as an iterator": (handed,),
        "only the first rank scales": (run_of(cell, [BY_RANK, *by_rank(cell)]),),
    }


def run_of(cell, tensors):
    limit = times(cell.limit, exponent(cell))
    return {"tensors": tensors, "given": "list", "options": {"max_norm": limit}, "step": "after"}


def by_tensor(cell, copied):
    """Each logical tensor, in a buffer of its own afterwards where it is copied."""
    power, main = exponent(cell), {piece.tensor: copied(piece) for piece in pieces(cell)}
    rows = {tensor: [times(value, power) for value in held.values()] for tensor, held in tensors_of(cell).items()}
    return [{"grad": row, "main": row if main[tensor] else None} for tensor, row in rows.items()]


def by_rank(cell):
    """What each rank owns is measured, what it holds is looked at; only the first one's is what the call scales."""
    power, tensors = exponent(cell), []
    for number, (rank, shard) in enumerate(zip(cell.ranks, owned(cell))):
        main = [times(value, power) for value in held_by(rank).values()] if number else None
        tensors.append({"grad": [times(value, power) for value in shard.values()], "main": main})
    return tensors


def tensors_of(cell):
    held = {}
    for piece in pieces(cell):
        held.setdefault(piece.tensor, {}).update(elements(piece))
    return {tensor: found for tensor, found in held.items() if found}


def held_by(rank):
    return {element: value for piece in rank.pieces for element, value in elements(piece)}


def predicted(cell, result):
    power, stepped = -exponent(cell), result["stepped"]
    norm = times(result["norm"], power)
    if stepped and not stepped[0]:
        after = [matched(held_by(rank), values, power) for rank, values in zip(cell.ranks, stepped[1:])]
    else:
        together = {}
        for held, values in zip(tensors_of(cell).values(), stepped):
            together.update(matched(held, values, power))
        after = [together] * len(cell.ranks)
    return [
        Ended(norm=norm, values=tuple(filled(piece, found.__getitem__) for piece in rank.pieces))
        for rank, found in zip(cell.ranks, after)
    ]


def matched(held, values, power):
    return {element: times(value, power) for element, value in zip(held, values)}
