"""A layout as the first of several steps, with the shards that the ranks own."""

import math

from shardproof.failures.axes import filled
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import finite, gradient, owned, whole


def readings(cell):
    if not (whole(cell) and cell.norm_type == 2 and cell.limit >= 0):
        return {}
    shards = [list(shard.values()) for shard in owned(cell)]
    arguments = {f"squared in {dtype}": ([shards], cell.limit, dtype, 10) for dtype in ("float32", "float64")}
    if not any(math.isnan(value) for value in gradient(cell).values()):
        # A program that asks whether the norm is above the limit leaves NaN alone, where one that divides spreads it.
        arguments |= {f"{name}, NaN aside": each for name, each in arguments.items()}
    # Silent updates of zero by other ways than a factor; on finite gradients they are nothing.
    silent = [[value if finite(cell) else 0.0 for value in shard] for shard in shards]
    cleaned = [[value if math.isfinite(value) else 0.0 for value in shard] for shard in shards]
    arguments["all is set to zero where the norm is not finite"] = ([silent], cell.limit, "float64", 10)
    arguments["what is not finite is set to zero first"] = ([cleaned], cell.limit, "float64", 10)
    return arguments


def predicted(cell, result):
    if "raises" in result:
        return [Ended(outcome="raised") for _ in cell.ranks]
    step, after = result["steps"][0], {}
    for shard, values in zip(owned(cell), step["values"]):
        after.update(zip(shard, values))
    norm = step["norm"] if step["norm"] or finite(cell) else not_finite(cell)
    return [
        Ended(norm=norm, values=tuple(filled(piece, after.__getitem__) for piece in rank.pieces)) for rank in cell.ranks
    ]


def not_finite(cell):
    """The norm by which a program saw that it had to set all to zero."""
    return math.nan if any(math.isnan(value) for value in gradient(cell).values()) else math.inf
