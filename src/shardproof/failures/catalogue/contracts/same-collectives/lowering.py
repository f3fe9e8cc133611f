"""A layout as ranks that start one all-reduce, or not: for want of gradients, or for want of parameters."""

from shardproof.failures.lowering import Ended
from shardproof.failures.owned import (
    counting,
    factor_of,
    finite,
    has_gradients,
    has_parameters,
    has_tensors,
    owned,
    scaled,
    whole,
)

LACKS = {
    "ranks without parameters": has_parameters,
    "ranks without gradients": has_tensors,
    "ranks whose gradients have no elements": has_gradients,
}


def readings(cell):
    if not (finite(cell) and whole(cell) and cell.norm_type > 0 and cell.limit >= 0):
        return {}
    shards = owned(cell)
    return {
        f"the others are {lacks}": ([list(shards[index].values()) for index in counting(cell, has)], cell.norm_type)
        for lacks, has in LACKS.items()
    }


def predicted(cell, result):
    # Of the three kinds of ranks each holds those of the kind before: as many ranks are the same ranks.
    norms = next(
        dict(zip(ranks, result["norms"]))
        for ranks in (counting(cell, has) for has in LACKS.values())
        if len(ranks) == len(result["norms"])
    )
    owners = [norms[index] for index, shard in enumerate(owned(cell)) if shard]
    others = owners[0] if owners else next(iter(norms.values()), 0.0)
    return [ended(rank, norms.get(index, others), cell.limit) for index, rank in enumerate(cell.ranks)]


def ended(rank, norm, limit):
    return Ended(outcome="hang") if norm is None else scaled(rank, norm, factor_of(norm, limit))
