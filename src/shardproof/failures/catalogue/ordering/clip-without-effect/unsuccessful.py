"""What is stepped is clipped tensor by tensor, inside the backward pass by the norm of what has arrived so far."""

import math


def solve(run):
    options = run["options"]
    limit = options.get("max_norm", options.get("clip_norm"))
    arrived, stepped = 0.0, []
    for tensor in list(run["tensors"]):
        values = tensor["grad"] if tensor["main"] is None else tensor["main"]
        own = math.hypot(*values)
        arrived = math.hypot(arrived, own)
        norm = arrived if run["step"] == "in backward" else own
        factor = limit / norm if limit is not None and norm > limit else 1.0
        stepped.append([round(value * factor, 12) for value in values])
    return {"norm": round(arrived, 12), "stepped": stepped}
