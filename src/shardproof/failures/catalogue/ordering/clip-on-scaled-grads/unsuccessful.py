"""The limit is multiplied by the scaler's present scale, which is also what the gradient is divided by."""

import math


def solve(step):
    stored, limit = step["stored"], step["limit"]
    finite = all(map(math.isfinite, stored))
    scale = step["scale"] * (2 if step["grows"] else 1) if finite else step["scale"] / 2
    if not finite:
        return {"norm": None, "step": "skip", "scale": scale}
    norm = math.hypot(*stored)
    if limit is not None and norm > limit * scale:
        stored = [value * (limit * scale / norm) for value in stored]
    return {"norm": round(norm / scale, 12), "step": [round(value / scale, 12) for value in stored], "scale": scale}
