"""Every tensor is taken as cut along the group, so that each of its ranks counts what it holds."""

import math


def solve(run):
    values = {}
    for rank in run["ranks"]:
        place = tuple(rank["at"][axis] for axis in run["group"])
        for piece in rank["pieces"]:
            for element, value in zip(piece["elements"], piece["values"]):
                values[piece["tensor"], element, place] = value
    norm = math.hypot(*values.values())
    factor = min(1, run["limit"] / norm) if norm else 1
    return [
        {
            "norm": round(norm, 12),
            "values": [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]],
        }
        for rank in run["ranks"]
    ]
