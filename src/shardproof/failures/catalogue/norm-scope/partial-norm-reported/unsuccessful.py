"""The norms that the ranks see are averaged before they are returned, so that all ranks return the same."""

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
    ranks = run["ranks"]
    norm = norm_of(ranks)
    factor = min(1, run["limit"] / norm) if norm else 1
    seen = [norm_of([other for other in ranks if reaches(run, rank, other)]) for rank in ranks]
    average = round(sum(seen) / len(seen), 12)
    ended = []
    for rank in ranks:
        values = [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]]
        ended.append({"norm": average, "values": values})
    return ended
