"""A layout as ranks that look for infinite and NaN values: every value that a rank holds can be seen by it."""

import math

from shardproof.failures.axes import elements
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import factor_of, gradient, owned, scaled, whole

WAYS = {
    "a rank that skips adds nothing; copies count on the first rank": ("leaves", "others join"),
    "a rank that skips adds nothing; copies count on the last rank": ("leaves", "others join, last"),
    "a rank that skips does not join the reduction": ("leaves", "others wait"),
    "a rank that skips adds its values all the same": ("leaves", "others divide"),
    "a rank that skips adds its values all the same; NaN aside": ("leaves", "others compare"),
    "a rank raises before the reduction": ("raises", "others wait"),
    "a rank raises after the reduction": ("raises", "others divide"),
    "a rank raises after the reduction; NaN aside": ("raises", "others compare"),
}
"""What a rank does that finds its own values bad, and what becomes of the others."""

# The contract hands the loss scale back, halved or not; so a scale of its own tells each way when the result is read.
SCALES = {way: 4.0**number for number, way in enumerate(WAYS.values())}


def readings(cell):
    if not (whole(cell) and cell.norm_type == 2 and cell.limit >= 0):
        return {}
    seen = {last: seen_by_ranks(cell, last=last) for last in (False, True)}
    return {name: (seen["last" in way[1]], cell.limit, SCALES[way], "float64") for name, way in WAYS.items()}


def seen_by_ranks(cell, last):
    """What each rank owns, and the values of its copies that are not finite: they add to no norm, but are seen."""
    ranks = []
    for rank, shard in zip(cell.ranks, owned(cell, last=last)):
        held = dict(pair for piece in rank.pieces for pair in elements(piece))
        bad = [value for element, value in held.items() if element not in shard and not math.isfinite(value)]
        ranks.append([*shard.values(), *bad])
    return ranks


def predicted(cell, result):
    scale = max((each["scale"] * (2 if each["skip"] else 1) for each in result), default=1.0)
    finds, others = next(way for way, own in SCALES.items() if own == scale)
    skips = any(each["skip"] for each in result)
    ended = []
    for rank, each in zip(cell.ranks, result):
        if each["skip"]:
            ended.append(Ended(outcome="raised") if finds == "raises" else scaled(rank, each["norm"], 1.0))
        elif skips and others == "others wait":
            ended.append(Ended(outcome="hang"))
        elif skips and "join" not in others:
            ended.append(by_what_was_added(cell, rank, aside=others == "others compare"))
        else:
            ended.append(scaled(rank, each["norm"], factor_of(each["norm"], cell.limit)))
    return ended


def by_what_was_added(cell, rank, aside):
    """A rank that does not skip clips by inf or NaN; one that asks whether NaN is above the limit does nothing."""
    norm = math.nan if any(math.isnan(value) for value in gradient(cell).values()) else math.inf
    return scaled(rank, norm, 1.0 if aside and math.isnan(norm) else factor_of(norm, cell.limit))
