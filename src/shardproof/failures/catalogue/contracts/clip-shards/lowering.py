"""A layout as shards: what each rank holds, copies included; the contract says nothing about the returned norm."""

from shardproof.failures.axes import clips, elements, exponent, spread, times
from shardproof.failures.lowering import Ended


def readings(cell):
    if not clips(cell):
        return {}
    power = exponent(cell)
    shards = [[times(value, power) for piece in rank.pieces for _, value in elements(piece)] for rank in cell.ranks]
    return {"a shard is all that a rank holds": (shards, times(cell.limit, power))}


def predicted(cell, result):
    power = -exponent(cell)
    return [Ended(values=after(rank, iter(shard), power)) for rank, shard in zip(cell.ranks, result)]


def after(rank, given, power):
    """The values piece by piece, padding as it was; what has no gradient was not in the shard."""
    return tuple(None if piece.values is None else spread(piece, given, power) for piece in rank.pieces)
