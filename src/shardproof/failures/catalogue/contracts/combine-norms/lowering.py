"""A layout as parts of ranks: the norm is whole along some axes, and combined over the others by the program."""

from itertools import product
from math import isfinite

from shardproof.failures.axes import elements, exponent, filled, groups, pieces, times
from shardproof.failures.lowering import Ended


def readings(cell):
    if not expressible(cell):
        return {}
    parts, named = {}, {}
    for reduce, what in (("sum", "adds"), ("mean", "averages")):
        for name, axes in groups(cell).items():
            if (reduce, axes) not in parts:
                arguments = (parts_of(cell, axes), cell.norm_type, times(cell.limit, exponent(cell)), reduce)
                # Equal arguments are one object, so that whoever solves them may solve each once.
                parts[reduce, axes] = arguments
            named[f"norms along {name}; the collective {what}"] = parts[reduce, axes]
        tensors = (tensors_of(cell), cell.norm_type, times(cell.limit, exponent(cell)), reduce)
        named[f"norms of whole tensors; what combines them {what}"] = tensors
    return named


def expressible(cell):
    finite = all(isfinite(value) for piece in pieces(cell) for value in piece.values or ())
    summands = any(how == "partial" for piece in pieces(cell) for how in piece.on.values())
    # Two parameters of one rank for the same elements are neither copies on other ranks nor other elements.
    twice = any(len({e for e, _ in held}) < len(held) for held in map(held_by, cell.ranks))
    return finite and not summands and not twice and cell.norm_type > 0 and cell.limit >= 0


def held_by(rank):
    return [pair for piece in rank.pieces for pair in elements(piece)]


def parts_of(cell, axes):
    """What lies at each place along `axes`, seen whole along the other axes: a part for each set of holders."""
    power = exponent(cell)
    places = list(product(*(range(cell.axes[axis]) for axis in axes)))
    gradient, holders = {}, {}
    for rank in cell.ranks:
        place = places.index(tuple(rank.at[axis] for axis in axes))
        for element, value in held_by(rank):
            gradient[element] = times(value, power)
            holders.setdefault(element, set()).add(place)
    parts = {}
    for element, value in gradient.items():
        held = tuple(sorted(holders[element]))
        part = parts.setdefault(held if len(held) > 1 else (), {"lies": "distinct", "ranks": [[] for _ in places]})
        if len(held) > 1:
            part["lies"] = "copies"
        for place in held:
            part["ranks"][place].append(value)
    return list(parts.values()) or [{"lies": "distinct", "ranks": [[] for _ in places]}]


def tensors_of(cell):
    """Each tensor, whole, as if a rank of its own held it."""
    power, tensors = exponent(cell), {}
    for piece in pieces(cell):
        tensors.setdefault(piece.tensor, {}).update(elements(piece))
    whole = [[times(value, power) for value in each.values()] for each in tensors.values()]
    return [{"lies": "distinct", "ranks": whole}]


def predicted(cell, result):
    norm, factor = times(result["norm"], -exponent(cell)), result["factor"]
    before = {element: value for piece in pieces(cell) for element, value in elements(piece)}
    return [
        Ended(norm=norm, values=tuple(filled(piece, lambda each: before[each] * factor) for piece in rank.pieces))
        for rank in cell.ranks
    ]
