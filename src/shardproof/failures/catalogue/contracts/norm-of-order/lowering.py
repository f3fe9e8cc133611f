"""A layout as shards that the ranks own, empty where a rank has no gradients; the order is the call's."""

from shardproof.failures.lowering import Ended
from shardproof.failures.owned import counting, finite, has_gradients, owned, scaled, whole


def readings(cell):
    if not (finite(cell) and whole(cell) and cell.norm_type > 0 and cell.limit >= 0):
        return {}
    shards = owned(cell)
    ranks = [list(shards[index].values()) for index in counting(cell, has_gradients)]
    return {"a shard is what a rank owns": (ranks, cell.norm_type, cell.limit)}


def predicted(cell, result):
    """A rank without gradients is the one that raises; the others wait for it."""
    if "raises" not in result:
        return [scaled(rank, result["norm"], result["factor"]) for rank in cell.ranks]
    return [Ended(outcome="hang" if has_gradients(rank) else "raised") for rank in cell.ranks]
