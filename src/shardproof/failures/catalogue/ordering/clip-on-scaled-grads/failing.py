"""The stored gradient is clipped as it is; the loss scale is divided out afterwards."""

import math


def solve(step):
    stored, scale, limit = step["stored"], step["scale"], step["limit"]
    norm = math.hypot(*stored)
    factor = limit / norm if limit is not None and norm > limit else 1.0
    gradient = [value * factor / scale for value in stored]
    if not all(map(math.isfinite, gradient)):
        return {"norm": None, "step": "skip", "scale": scale / 2}
    next_scale = scale * 2 if step["grows"] else scale
    return {"norm": round(norm, 12), "step": [round(value, 12) for value in gradient], "scale": next_scale}
