"""A layout as groups of tensors or slices; the contract says nothing about the returned norm."""

from shardproof.failures.axes import clips, elements, exponent, filled, pieces, times
from shardproof.failures.lowering import Ended

WAYS = {
    "each tensor": lambda piece: piece.tensor,
    "each slice of a tensor as a rank holds it": lambda piece: f"{piece.tensor} {piece.indices}",
    "each dtype": lambda piece: piece.dtype,
    "DTensors apart from plain tensors": lambda piece: "DTensor" if piece.told else "plain",
    "tensors that lie in the same way": lambda piece: str(sorted(piece.on.items())),
    "cut tensors apart from others": lambda piece: "cut" if "shard" in piece.on.values() else "not cut",
    "tensors that ranks share apart from others": lambda piece: "own" if "distinct" in piece.on.values() else "shared",
    "experts apart from others": lambda piece: "dense" if piece.on.get("ep", "replicate") == "replicate" else "expert",
    "biases and norms apart from others": lambda piece: "no decay" if undecayed(piece.name) else "decay",
}


def undecayed(name):
    return "bias" in name or "norm" in name


def readings(cell):
    if not clips(cell):
        return {}
    power, found = exponent(cell), {}
    for way, name_of in WAYS.items():
        grouped = grouping(cell, way, name_of)
        named = {}
        for name, values in grouped.items():
            named[name] = [times(value, power) for value in values.values()]
        # Slices that overlap in part are no groups of one model.
        if sum(map(len, grouped.values())) == len({element for each in grouped.values() for element in each}):
            found[way] = (named, times(cell.limit, power))
    return found


def grouping(cell, way, name_of):
    """Group -> element -> gradient; a copy says the same again. The names carry the way, for the way back."""
    grouped = {}
    for piece in pieces(cell):
        if piece.values is not None:
            grouped.setdefault(f"{way}: {name_of(piece)}", {}).update(elements(piece))
    return grouped


def predicted(cell, result):
    power = -exponent(cell)
    way = next(iter(result), ": ").partition(": ")[0]
    after = {}
    for name, values in grouping(cell, way, WAYS.get(way, str)).items():
        after.update(zip(values, (times(value, power) for value in result[name])))
    return [Ended(values=tuple(filled(piece, after.__getitem__) for piece in rank.pieces)) for rank in cell.ranks]
