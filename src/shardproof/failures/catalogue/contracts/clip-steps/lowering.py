"""A layout as the first of several steps, with the shards that the ranks own."""

import math

from shardproof.failures.axes import filled
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import gradient, owned, whole


def readings(cell):
    if not (whole(cell) and cell.norm_type == 2 and cell.limit >= 0):
        return {}
    shards = [list(shard.values()) for shard in owned(cell)]
    arguments = {f"squared in {dtype}": ([shards], cell.limit, dtype, 10) for dtype in ("float32", "float64")}
    if any(math.isnan(value) for value in gradient(cell).values()):
        return arguments
    # A program that asks whether the norm is above the limit leaves NaN alone, where one that divides spreads it.
    return arguments | {f"{name}, NaN aside": each for name, each in arguments.items()}


def predicted(cell, result):
    if "raises" in result:
        return [Ended(outcome="raised") for _ in cell.ranks]
    step, after = result["steps"][0], {}
    for shard, values in zip(owned(cell), step["values"]):
        after.update(zip(shard, values))
    return [
        Ended(norm=step["norm"], values=tuple(filled(piece, after.__getitem__) for piece in rank.pieces))
        for rank in cell.ranks
    ]
