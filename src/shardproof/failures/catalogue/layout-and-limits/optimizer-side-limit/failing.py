"""Each limit covers all layers under its name, whatever their rule; the sum is divided by what was drawn."""

import math


def digits(number):
    return float(f"{number:.11e}")


def clipped(sample, layers):
    parts = []
    for values, layer in zip(sample, layers):
        together = [part for part, other in zip(sample, layers) if other["name"] == layer["name"]]
        norm = math.hypot(*(value for part in together for value in part))
        factor = layer["limit"] / norm if norm > layer["limit"] else 1.0
        parts.append([value * factor for value in values])
    return parts


def solve(samples, layers, expected):
    scaled = [clipped(sample, layers) for sample in samples]
    update = [
        [digits(math.fsum(part[index][place] for part in scaled) / len(samples)) for place in range(layer["size"])]
        for index, layer in enumerate(layers)
    ]
    return {"update": update, "bound": digits(max(layer["limit"] for layer in layers))}
