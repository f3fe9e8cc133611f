"""A layout as shards: what each rank holds, copies included; the norm is the one that the factor comes from."""

from shardproof.failures.axes import clips, elements, exponent, spread, times
from shardproof.failures.lowering import PADDING, Ended


def readings(cell):
    if not clips(cell):
        return {}
    power = exponent(cell)
    held = [[times(value, power) for piece in rank.pieces for _, value in elements(piece)] for rank in cell.ranks]
    seen = [
        [*shard, *(times(value, power) for value in elsewhere(cell, rank))]
        for shard, rank in zip(held, cell.ranks, strict=True)
    ]
    limit = times(cell.limit, power)
    return {
        "a shard is all that a rank holds": (held, limit),
        "a shard is all that a rank holds, and what its DTensors hold elsewhere": (seen, limit),
    }


def elsewhere(cell, rank):
    """The elements of this rank's DTensors that lie on other ranks of the tensor's own mesh."""
    for piece in rank.pieces:
        own = {element for element, _ in elements(piece)}
        others = [
            other
            for holder in cell.ranks
            if all(holder.at[axis] == rank.at[axis] for axis in cell.axes if axis not in piece.told)
            for other in holder.pieces
            if (other.tensor, other.name) == (piece.tensor, piece.name)
        ]
        found = dict(pair for other in others for pair in elements(other))
        yield from (value for element, value in found.items() if element not in own)


def predicted(cell, result):
    power = -exponent(cell)
    ended = [after(rank, iter(shard), power) for rank, shard in zip(cell.ranks, result)]
    return [Ended(norm=implied(cell, rank, values), values=values) for rank, values in zip(cell.ranks, ended)]


def implied(cell, rank, values):
    """The norm that a rank's factor comes from; None where nothing was scaled, or all of it to zero."""
    pairs = [
        (before, now)
        for piece, row in zip(rank.pieces, values)
        if row is not None
        for before, now, index in zip(piece.values, row, piece.indices)
        if index != PADDING
    ]
    before, now = max(pairs, key=lambda pair: abs(pair[0]), default=(0.0, 0.0))
    return cell.limit * (before / now) if now and abs(now) < abs(before) else None


def after(rank, given, power):
    """The values piece by piece, padding as it was; what has no gradient was not in the shard."""
    return tuple(None if piece.values is None else spread(piece, given, power) for piece in rank.pieces)
