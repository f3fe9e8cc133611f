"""A layout as the first of several steps, with the shards that the ranks own."""

from shardproof.failures.axes import filled
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import owned, whole


def readings(cell):
    if not (whole(cell) and cell.norm_type == 2 and cell.limit >= 0):
        return {}
    shards = [list(shard.values()) for shard in owned(cell)]
    return {f"squared in {dtype}": ([shards], cell.limit, dtype, 10) for dtype in ("float32", "float64")}


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
