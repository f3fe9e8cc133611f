"""A layout as one gradient; a reading in other units makes the same program one with another epsilon."""

import math

from shardproof.failures.axes import filled
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import finite, gradient, whole

UNITS = {
    "in the units of the call": 1.0,
    "an epsilon 10 times as large": 1e1,
    "an epsilon 100 times as large": 1e2,
    "an epsilon 1,000 times as large": 1e3,
    "an epsilon 10,000 times as large": 1e4,
    "an epsilon 100 times as small": 1e-2,
}


def readings(cell):
    if not (finite(cell) and whole(cell) and cell.norm_type == 2):
        return {}
    values = gradient(cell).values()
    said = {name: ([value / unit for value in values], cell.limit / unit) for name, unit in UNITS.items()}
    # Programs that divide look for a norm of zero first, or add an epsilon so small that nothing else shows it.
    said["a norm of zero passed over"] = (list(values), cell.limit if any(values) else None)
    # A factor that is held at one by holding the limit at the norm is 0 / 0 where the norm is zero.
    said["the limit is held at the norm first"] = (list(values), min(cell.limit, math.hypot(*values)))
    # min(1.0, nan) is 1.0 where min(nan, 1.0) is NaN: a program that holds its factor so does not see a NaN limit.
    said["a NaN limit compares as no limit"] = (list(values), math.inf if math.isnan(cell.limit) else cell.limit)
    return said


def predicted(cell, result):
    if "raises" in result:
        return [Ended(outcome="raised") for _ in cell.ranks]
    before = gradient(cell)
    unit = unit_of(math.hypot(*before.values()), result["norm"])
    after = dict(zip(before, (value * unit for value in result["values"])))
    return [
        Ended(norm=result["norm"] * unit, values=tuple(filled(piece, after.__getitem__) for piece in rank.pieces))
        for rank in cell.ranks
    ]


def unit_of(norm, returned):
    # The result does not name its reading, but no program of this contract has a wrong norm.
    return 10.0 ** round(math.log10(norm / returned)) if norm else 1.0
