"""A layout as ranks that look for infinite and NaN values: every value that a rank holds can be seen by it."""

import math

from shardproof.failures.axes import elements
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import factor_of, owned, scaled, whole

# The contract hands the loss scale back, halved or not; two scales tell two ways of skipping apart.
JOINS, LEAVES = 1.0, 16.0


def readings(cell):
    if not (whole(cell) and cell.norm_type == 2 and cell.limit >= 0):
        return {}
    first, last = seen_by_ranks(cell, last=False), seen_by_ranks(cell, last=True)
    return {
        "a rank that skips adds nothing; copies count on the first rank": (first, cell.limit, JOINS, "float64"),
        "a rank that skips adds nothing; copies count on the last rank": (last, cell.limit, JOINS, "float64"),
        "a rank that skips does not join the reduction": (first, cell.limit, LEAVES, "float64"),
    }


def seen_by_ranks(cell, last):
    """What each rank owns, and the values of its copies that are not finite: they add to no norm, but are seen."""
    ranks = []
    for rank, shard in zip(cell.ranks, owned(cell, last=last)):
        held = dict(pair for piece in rank.pieces for pair in elements(piece))
        bad = [value for element, value in held.items() if element not in shard and not math.isfinite(value)]
        ranks.append([*shard.values(), *bad])
    return ranks


def predicted(cell, result):
    leaves = any(each["scale"] > JOINS for each in result)
    waiting = leaves and any(each["skip"] for each in result)
    ended = []
    for rank, each in zip(cell.ranks, result):
        if each["skip"]:
            ended.append(scaled(rank, each["norm"], 1.0))
        elif waiting:
            ended.append(Ended(outcome="hang"))
        else:
            ended.append(scaled(rank, each["norm"], factor_of(each["norm"], cell.limit)))
    return ended
