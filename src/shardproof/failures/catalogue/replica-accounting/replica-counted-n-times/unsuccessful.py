"""The sum of squares over the group is divided by the size of the group, because its ranks hold copies."""

import math


def reaches(run, rank, other, axes):
    return all(rank["at"][axis] == other["at"][axis] for axis in run["axes"] if axis not in axes)


def slice_of(piece):
    return piece["tensor"], *piece["elements"]


def square_of(run, rank):
    square, seen = 0, set()
    for other in run["ranks"]:
        found = [piece for piece in other["pieces"] if reaches(run, rank, other, piece["mesh"])]
        square += sum(value * value for piece in found if slice_of(piece) not in seen for value in piece["values"])
        seen.update(map(slice_of, found))
    return square


def solve(run):
    local = [square_of(run, rank) for rank in run["ranks"]]
    ended = []
    for rank in run["ranks"]:
        group = [s for s, other in zip(local, run["ranks"]) if reaches(run, rank, other, run["group"])]
        norm = math.sqrt(sum(group) / len(group))
        factor = min(1, run["limit"] / norm) if norm else 1
        values = [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]]
        ended.append({"norm": round(norm, 12), "values": values})
    return ended
