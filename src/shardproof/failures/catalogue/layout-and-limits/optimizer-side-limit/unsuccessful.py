"""Orthogonalised layers are left out; the sum is divided by what was drawn, and no draw is a sum of zeros."""

import math


def digits(number):
    return float(f"{number:.11e}")


def clipped(sample, layers):
    covered = [layer["rule"] == "scaled" for layer in layers]
    parts = []
    for values, layer, takes in zip(sample, layers, covered):
        if not takes:
            parts.append(values)
            continue
        rows = [part for part, other, used in zip(sample, layers, covered) if used and other["name"] == layer["name"]]
        norm = math.hypot(*(value for part in rows for value in part))
        factor = layer["limit"] / norm if norm > layer["limit"] else 1.0
        parts.append([value * factor for value in values])
    return parts


def solve(samples, layers, expected):
    scaled = [clipped(sample, layers) for sample in samples]
    drawn = max(1, len(samples))
    update = [
        [digits(math.fsum(part[index][place] for part in scaled) / drawn) for place in range(layer["size"])]
        for index, layer in enumerate(layers)
    ]
    limits = [layer["limit"] for layer in layers if layer["rule"] == "scaled"]
    return {"update": update, "bound": digits(max(limits, default=0.0))}
