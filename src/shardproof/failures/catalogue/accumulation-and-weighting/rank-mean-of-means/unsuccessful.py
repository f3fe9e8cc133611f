"""Losses are multiplied by the world size, so that the wrapper's average becomes a sum; counts stay local."""


def solve(run):
    world = len(run["ranks"])
    gradient = 0.0
    for micro_batches in run["ranks"]:
        tokens = sum(part["count"] for part in micro_batches)
        loss = world * sum(part["sum"] for part in micro_batches) / max(tokens, 1)
        gradient += loss / world
    return round(gradient, 12)
