"""The norms that the ranks see are averaged before they are returned, so that all ranks return the same."""

import math


def reaches(run, rank, other):
    return all(rank["at"][axis] == other["at"][axis] for axis in run["axes"] if axis not in run["group"])


def norm_of(ranks):
    square, seen = 0, set()
    for rank in ranks:
        square += sum(
            value * value for piece in rank["pieces"] if slice_of(piece) not in seen for value in piece["values"]
        )
        seen.update(map(slice_of, rank["pieces"]))
    return math.sqrt(square)


def slice_of(piece):
    return piece["tensor"], *piece["elements"]


def whole_norm(run):
    values = {}
    for rank in run["ranks"]:
        for piece in rank["pieces"]:
            values.update(zip([(piece["tensor"], element) for element in piece["elements"]], piece["values"]))
    return math.hypot(*values.values())


def solve(run):
    ranks, norm = run["ranks"], whole_norm(run)
    factor = min(1, run["limit"] / norm) if norm else 1
    seen = [norm_of([other for other in ranks if reaches(run, rank, other)]) for rank in ranks]
    average = round(sum(seen) / len(seen), 12)
    ended = []
    for rank in ranks:
        values = [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]]
        ended.append({"norm": average, "values": values})
    return ended
