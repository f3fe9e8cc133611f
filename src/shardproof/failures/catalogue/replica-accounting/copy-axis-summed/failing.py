"""The sum of squares is completed over the axes that cut tensors, and then summed over the group once more."""

import math


def complete(run):
    squares = {}
    for rank in run["ranks"]:
        for piece in rank["pieces"]:
            for element, value in zip(piece["elements"], piece["values"]):
                squares[piece["tensor"], element] = value * value
    return sum(squares.values())


def solve(run):
    members = math.prod(run["axes"][axis] for axis in run["group"])
    norm = math.sqrt(sum(complete(run) for _ in range(members)))
    factor = min(1, run["limit"] / norm) if norm else 1
    return [
        {
            "norm": round(norm, 12),
            "values": [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]],
        }
        for rank in run["ranks"]
    ]
