"""Where something is copied over the group every rank takes its own norm for the whole one, and nothing is summed."""

import math


def norm_of(ranks):
    values = {}
    for rank in ranks:
        for piece in rank["pieces"]:
            values.update(zip([(piece["tensor"], element) for element in piece["elements"]], piece["values"]))
    return math.hypot(*values.values())


def copies(run):
    lies = [piece["lies"] for rank in run["ranks"] for piece in rank["pieces"]]
    return any(each[axis] == "replicate" for each in lies for axis in run["group"])


def solve(run):
    alone, ended = copies(run), []
    for rank in run["ranks"]:
        norm = norm_of([rank] if alone else run["ranks"])
        factor = min(1, run["limit"] / norm) if norm else 1
        values = [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]]
        ended.append({"norm": round(norm, 12), "values": values})
    return ended
