"""What is stepped is clipped where it arises, tensor by tensor, so that it does not matter when the step comes."""

import math


def solve(run):
    options = run["options"]
    limit = options.get("max_norm", options.get("clip_norm"))
    norms, stepped = [], []
    for tensor in list(run["tensors"]):
        values = tensor["grad"] if tensor["main"] is None else tensor["main"]
        norm = math.hypot(*values)
        factor = limit / norm if limit is not None and norm > limit else 1.0
        norms.append(norm)
        stepped.append([round(value * factor, 12) for value in values])
    return {"norm": round(math.hypot(*norms), 12), "stepped": stepped}
