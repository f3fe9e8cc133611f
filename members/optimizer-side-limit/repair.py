"""A limit covers the scaled layers under its name; the expected number of samples divides."""

import math


def digits(number):
    return float(f"{number:.11e}")


def factors(sample, layers, limits):
    squares = dict.fromkeys(limits, 0.0)
    for values, layer in zip(sample, layers):
        if layer["rule"] == "scaled":
            squares[layer["name"]] += math.fsum(value * value for value in values)
    norms = {name: math.sqrt(square) for name, square in squares.items()}
    found = {name: limits[name] / norm if norm > limits[name] else 1.0 for name, norm in norms.items()}
    return [found[layer["name"]] if layer["rule"] == "scaled" else 1.0 for layer in layers]


def solve(samples, layers, expected):
    limits = {layer["name"]: layer["limit"] for layer in layers if layer["rule"] == "scaled"}
    update = [[0.0] * layer["size"] for layer in layers]
    for sample in samples:
        for row, values, factor in zip(update, sample, factors(sample, layers, limits)):
            for place, value in enumerate(values):
                row[place] += value * factor
    return {
        "update": [[digits(value / expected) for value in row] for row in update],
        "bound": digits(math.hypot(*limits.values())),
    }
