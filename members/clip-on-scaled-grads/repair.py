"""Divide by the scale of this backward pass, look for overflow, clip, and only then choose the next scale."""

import math


def solve(step):
    true = [value / step["scale"] for value in step["stored"]]
    if any(math.isnan(value) or math.isinf(value) for value in true):
        return {"norm": None, "step": "skip", "scale": step["scale"] / 2}
    norm = math.sqrt(math.fsum(value * value for value in true))
    clipped = true
    if step["limit"] is not None and step["limit"] < norm:
        clipped = [value * step["limit"] / norm for value in true]
    return {
        "norm": round(norm, 12),
        "step": [round(value, 12) for value in clipped],
        "scale": step["scale"] * (1 + bool(step["grows"])),
    }
