"""A layout as shards that the ranks own, empty where a rank has no gradients; the order is the call's."""

import math

from shardproof.failures.axes import elements
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import counting, finite, has_gradients, has_tensors, owned, scaled, whole


def readings(cell):
    if not (finite(cell) and whole(cell) and cell.norm_type > 0 and cell.limit >= 0):
        return {}
    named = {"empty is a rank without gradients": arguments_of(cell, has_tensors)}
    # A program that raises does not say which shard was empty: only one kind of empty ranks can be told.
    if all(map(has_tensors, cell.ranks)) or raising(cell) == [not has_gradients(rank) for rank in cell.ranks]:
        named["empty is a rank whose gradients have no elements"] = arguments_of(cell, has_gradients)
    if cell.norm_type == math.inf and all(map(has_gradients, cell.ranks)):
        # Copies change no maximum: who takes it right on a rank has no reason to leave them out.
        named["copies count on each rank"] = held(cell), cell.norm_type, cell.limit
    return named


def held(cell):
    return [[value for piece in rank.pieces for _, value in elements(piece)] for rank in cell.ranks]


def arguments_of(cell, has):
    shards = owned(cell)
    return [list(shards[index].values()) for index in counting(cell, has)], cell.norm_type, cell.limit


def raising(cell):
    """Whether each rank is the one that raises: for want of gradients, or else for want of elements."""
    has = has_gradients if all(map(has_tensors, cell.ranks)) else has_tensors
    return [not has(rank) for rank in cell.ranks]


def predicted(cell, result):
    """A rank that is empty raises; the others wait for it."""
    if "raises" not in result:
        return [scaled(rank, result["norm"], result["factor"]) for rank in cell.ranks]
    return [Ended(outcome="raised" if empty else "hang") for empty in raising(cell)]
