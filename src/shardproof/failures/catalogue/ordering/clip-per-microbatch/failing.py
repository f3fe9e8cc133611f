"""Clipping follows every backward call: it acts on what the gradient holds at that moment."""

import math


def clip(gradient, limit):
    norm = math.hypot(*gradient)
    return [value * limit / norm for value in gradient] if norm > limit else gradient


def solve(run):
    world = len(run["ranks"]) if run["reduce"] == "mean" else 1
    steps = len(run["ranks"][0]) if run["accumulate"] == "mean" else 1
    total = [0.0] * len(run["ranks"][0][0])
    for micro_step in zip(*run["ranks"]):
        gradient = [sum(values) / world for values in zip(*micro_step)]
        if run["buffer"] == "grad":
            total = clip([kept + value / steps for kept, value in zip(total, gradient)], run["limit"])
        else:
            gradient = clip(gradient, run["limit"])
            total = [kept + value / steps for kept, value in zip(total, gradient)]
    return [round(value, 12) for value in total]
