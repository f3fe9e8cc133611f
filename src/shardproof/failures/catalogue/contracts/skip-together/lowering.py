"""A layout as ranks that look for infinite and NaN values: every value that a rank holds can be seen by it."""

import math

from shardproof.failures.axes import elements
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import factor_of, gradient, owned, scaled, whole

# The contract hands the loss scale back, halved or not; so scales tell ways of skipping apart.
JOINS, LEAVES, ADDS, COMPARES = 1.0, 16.0, 256.0, 4096.0


def readings(cell):
    if not (whole(cell) and cell.norm_type == 2 and cell.limit >= 0):
        return {}
    first, last = seen_by_ranks(cell, last=False), seen_by_ranks(cell, last=True)
    return {
        "a rank that skips adds nothing; copies count on the first rank": (first, cell.limit, JOINS, "float64"),
        "a rank that skips adds nothing; copies count on the last rank": (last, cell.limit, JOINS, "float64"),
        "a rank that skips does not join the reduction": (first, cell.limit, LEAVES, "float64"),
        "a rank that skips adds its values all the same": (first, cell.limit, ADDS, "float64"),
        "a rank that skips adds its values all the same; NaN aside": (first, cell.limit, COMPARES, "float64"),
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
    way = max((each["scale"] * (2 if each["skip"] else 1) for each in result), default=JOINS)
    skips = any(each["skip"] for each in result)
    ended = []
    for rank, each in zip(cell.ranks, result):
        if each["skip"]:
            ended.append(scaled(rank, each["norm"], 1.0))
        elif skips and way == LEAVES:
            ended.append(Ended(outcome="hang"))
        elif skips and way > LEAVES:
            ended.append(by_what_was_added(cell, rank, way))
        else:
            ended.append(scaled(rank, each["norm"], factor_of(each["norm"], cell.limit)))
    return ended


def by_what_was_added(cell, rank, way):
    """A rank that does not skip clips by inf or NaN; one that asks whether NaN is above the limit does nothing."""
    norm = math.nan if any(math.isnan(value) for value in gradient(cell).values()) else math.inf
    aside = way == COMPARES and math.isnan(norm)
    return scaled(rank, norm, 1.0 if aside else factor_of(norm, cell.limit))
