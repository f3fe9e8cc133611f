"""Tensors that differ along an axis which is not summed over are left out of the norm, so that all ranks agree."""

import math


def included(run, rank, other, piece):
    others = [axis for axis in run["axes"] if axis not in run["group"] + piece["mesh"]]
    return all(piece["lies"][axis] == "replicate" and rank["at"][axis] == other["at"][axis] for axis in others)


def slice_of(piece):
    return piece["tensor"], *piece["elements"]


def norm_of(run, rank):
    square, seen = 0, set()
    for other in run["ranks"]:
        found = [piece for piece in other["pieces"] if included(run, rank, other, piece)]
        square += sum(value * value for piece in found if slice_of(piece) not in seen for value in piece["values"])
        seen.update(map(slice_of, found))
    return math.sqrt(square)


def solve(run):
    ended = []
    for rank in run["ranks"]:
        norm = norm_of(run, rank)
        factor = min(1, run["limit"] / norm) if norm else 1
        values = [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]]
        ended.append({"norm": round(norm, 12), "values": values})
    return ended
