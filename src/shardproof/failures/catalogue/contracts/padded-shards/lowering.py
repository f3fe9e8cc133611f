"""A layout as buffers with their padding; of the two results the norm is what a clip shows."""

from shardproof.failures.axes import clips, exponent, times
from shardproof.failures.lowering import PADDING
from shardproof.failures.owned import clipped, counting, has_gradients, owned


def readings(cell):
    if not clips(cell):
        return {}
    power = exponent(cell)
    # A rank that holds copies only has the padding of its owner's buffer once more.
    places = counting(cell, has_gradients)
    real = [[times(value, power) for value in owned(cell)[index].values()] for index in places]
    padding = [
        [padded for piece in cell.ranks[index].pieces for padded in padding_of(piece, power)] for index in places
    ]
    buffers = [own + rest for own, rest in zip(real, padding)]
    return {"a buffer is what a rank owns, and its padding": (buffers, [len(own) for own in real], "norm")}


def padding_of(piece, power):
    return [times(value, power) for index, value in zip(piece.indices, piece.values or ()) if index == PADDING]


def predicted(cell, result):
    return clipped(cell, times(result, -exponent(cell)))
