"""Every rank is clipped by the whole norm and returns the part of it that it sees through its group."""

import math


def reaches(run, rank, other):
    return all(rank["at"][axis] == other["at"][axis] for axis in run["axes"] if axis not in run["group"])


def norm_of(ranks):
    values = {}
    for rank in ranks:
        for piece in rank["pieces"]:
            values.update(zip([(piece["tensor"], element) for element in piece["elements"]], piece["values"]))
    return math.hypot(*values.values())


def solve(run):
    norm = norm_of(run["ranks"])
    factor = min(1, run["limit"] / norm) if norm else 1
    ended = []
    for rank in run["ranks"]:
        seen = norm_of([other for other in run["ranks"] if reaches(run, rank, other)])
        values = [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]]
        ended.append({"norm": round(seen, 12), "values": values})
    return ended
