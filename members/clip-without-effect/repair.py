"""List once what will be stepped with; measure and scale these very values; refuse where it is too late."""

import math


def solve(run):
    limits = list(run["options"].values())
    limit = limits[0] if limits else math.inf
    if limits and run["step"] == "in backward":
        raise ValueError("Expected an optimizer that steps after the backward pass, got one that steps inside it.")
    live = [tensor["grad"] if tensor["main"] is None else tensor["main"] for tensor in run["tensors"]]
    norm = math.sqrt(math.fsum(value * value for values in live for value in values))
    numerator, denominator = (limit, norm) if norm > limit else (1, 1)
    scaled = [[round(value * numerator / denominator, 12) for value in values] for values in live]
    return {"norm": round(norm, 12), "stepped": scaled}
