"""A layout as parts of ranks: the norm is whole along some axes, and combined over the others by the program."""

from collections import Counter
from itertools import product
from math import isfinite

from shardproof.failures.axes import elements, exponent, filled, groups, pieces, times
from shardproof.failures.lowering import Ended
from shardproof.failures.owned import owned


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
        own = (owned_by(cell), cell.norm_type, times(cell.limit, exponent(cell)), reduce)
        named[f"norms of what ranks own; the collective {what}"] = own
        meshes = (meshes_of(cell), cell.norm_type, times(cell.limit, exponent(cell)), reduce)
        named[f"norms of the tensors of each mesh; what combines them {what}"] = meshes
    return named


def expressible(cell):
    finite = all(isfinite(value) for piece in pieces(cell) for value in piece.values or ())
    summands = any(how == "partial" for piece in pieces(cell) for how in piece.on.values())
    return finite and not summands and cell.norm_type > 0 and cell.limit >= 0


def held_by(rank):
    """Each element with its gradient, numbered by how many parameters of this rank hold it before."""
    met, numbered = Counter(), []
    for element, value in (pair for piece in rank.pieces for pair in elements(piece)):
        numbered.append(((met[element], element), value))
        met[element] += 1
    return numbered


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
    for (number, element), value in gradient.items():
        held = tuple(sorted(holders[number, element]))
        lies = "again" if number else "copies" if len(held) > 1 else "distinct"
        # One part holds all that lies at a single place each; copies need a part for each set of places.
        part = parts.setdefault((lies, held if lies == "copies" else ()), {"lies": lies, "ranks": [[] for _ in places]})
        for place in held:
            part["ranks"][place].append(value)
    return list(parts.values()) or [{"lies": "distinct", "ranks": [[] for _ in places]}]


def tensors_of(cell):
    """Each tensor, whole, as if a rank of its own held it."""
    return whole_by(cell, lambda piece: piece.tensor)


def owned_by(cell):
    """What each rank counts of all elements where each is counted by the first that holds it."""
    power = exponent(cell)
    shards = [[times(value, power) for value in shard.values()] for shard in owned(cell)]
    return [{"lies": "distinct", "ranks": shards}]


def meshes_of(cell):
    """The tensors of each mesh that their own objects know of, whole, as if a rank of its own held them."""
    return whole_by(cell, lambda piece: piece.told)


def whole_by(cell, key):
    power, groups_of = exponent(cell), {}
    for piece in pieces(cell):
        groups_of.setdefault(key(piece), {}).update(elements(piece))
    whole = [[times(value, power) for value in each.values()] for each in groups_of.values()]
    return [{"lies": "distinct", "ranks": whole}]


def predicted(cell, result):
    norm, factor = times(result["norm"], -exponent(cell)), result["factor"]
    before = {element: value for piece in pieces(cell) for element, value in elements(piece)}
    return [
        Ended(norm=norm, values=tuple(filled(piece, lambda each: before[each] * factor) for piece in rank.pieces))
        for rank in cell.ranks
    ]
