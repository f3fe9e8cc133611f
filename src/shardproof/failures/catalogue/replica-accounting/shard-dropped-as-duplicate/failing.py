"""Along the group only rank 0 counts a tensor, unless the tensor itself is marked as cut there."""

import math


def counted(run, rank, piece):
    marked = [axis for axis in piece["mesh"] if piece["lies"][axis] == "shard"]
    return all(rank["at"][axis] == 0 or axis in marked for axis in run["group"])


def solve(run):
    values = {}
    for rank in run["ranks"]:
        for piece in rank["pieces"]:
            if counted(run, rank, piece):
                values.update(zip([(piece["tensor"], element) for element in piece["elements"]], piece["values"]))
    norm = math.hypot(*values.values())
    factor = min(1, run["limit"] / norm) if norm else 1
    return [
        {
            "norm": round(norm, 12),
            "values": [[round(value * factor, 12) for value in piece["values"]] for piece in rank["pieces"]],
        }
        for rank in run["ranks"]
    ]
