"""Tensors that differ along an axis which is not summed over are left out of the norm, so that all ranks agree."""

import math


def reaches(run, rank, other, axes):
    return all(rank["at"][axis] == other["at"][axis] for axis in run["axes"] if axis not in axes)


def differs(run, piece, axes):
    return any(piece["lies"][axis] != "replicate" for axis in run["axes"] if axis not in axes)


def norm_of(run, rank):
    values = {}
    for other in run["ranks"]:
        for piece in other["pieces"]:
            axes = run["group"] + piece["mesh"]
            if reaches(run, rank, other, axes) and not differs(run, piece, axes):
                values.update(zip([(piece["tensor"], element) for element in piece["elements"]], piece["values"]))
    return math.hypot(*values.values())


def solve(run):
    ended = []
    for rank in run["ranks"]:
        norm = norm_of(run, rank)
        factor = min(1, run["limit"] / norm) if norm else 1
        values = [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]]
        ended.append({"norm": round(norm, 12), "values": values})
    return ended
