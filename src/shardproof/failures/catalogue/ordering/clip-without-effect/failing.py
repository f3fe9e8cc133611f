"""The call measures and scales the gradients it is handed; the optimizer steps with what it holds."""

import math


def clip_(gradients, limit):
    norm = math.sqrt(sum(value * value for gradient in gradients for value in gradient))
    if limit is not None and norm > limit:
        for gradient in gradients:
            gradient[:] = [value * limit / norm for value in gradient]
    return norm


def solve(run):
    gradients = [list(tensor["grad"]) for tensor in run["tensors"]]
    held = gradients if run["step"] == "after" else [tensor["grad"] for tensor in run["tensors"]]
    handed = iter(gradients) if run["given"] == "iterator" else gradients
    norm = clip_(handed, run["options"].get("max_norm"))
    mains = [tensor["main"] for tensor in run["tensors"]]
    stepped = [own if main is None else main for own, main in zip(held, mains)]
    return {"norm": round(norm, 12), "stepped": [[round(value, 12) for value in values] for values in stepped]}
