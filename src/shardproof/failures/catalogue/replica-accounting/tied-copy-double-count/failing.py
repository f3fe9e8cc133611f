"""Copies are counted at coordinate 0 of the axes that copy them; the tied parameters are parameters of their own."""

import math


def counted(rank, piece):
    return all(rank["at"][axis] == 0 for axis, how in piece["lies"].items() if how == "replicate")


def solve(run):
    square = 0
    for rank in run["ranks"]:
        for piece in rank["pieces"]:
            if counted(rank, piece):
                square += sum(value * value for value in piece["values"])
    norm = math.sqrt(square)
    factor = min(1, run["limit"] / norm) if norm else 1
    return [
        {
            "norm": round(norm, 12),
            "values": [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]],
        }
        for rank in run["ranks"]
    ]
