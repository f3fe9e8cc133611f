"""A layout as buffers with their padding; of the two results the norm is what a clip shows."""

from shardproof.failures.axes import clips, exponent, times
from shardproof.failures.lowering import PADDING
from shardproof.failures.owned import clipped, owned


def readings(cell):
    if not clips(cell):
        return {}
    power = exponent(cell)
    real = [[times(value, power) for value in shard.values()] for shard in owned(cell)]
    padding = [[times(value, power) for piece in rank.pieces for value in padding_of(piece)] for rank in cell.ranks]
    buffers = [own + rest for own, rest in zip(real, padding)]
    return {"a buffer is what a rank owns, and its padding": (buffers, [len(own) for own in real], "norm")}


def padding_of(piece):
    return [value for index, value in zip(piece.indices, piece.values or ()) if index == PADDING]


def predicted(cell, result):
    return clipped(cell, times(result, -exponent(cell)))
