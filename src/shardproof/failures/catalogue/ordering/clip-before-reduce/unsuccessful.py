"""Clipping is switched off wherever there is more than one rank."""

import math


def solve(run):
    ranks = run["ranks"]
    steps = len(ranks[0]) if run["accumulate"] == "mean" else 1
    divisor = len(ranks) * steps if run["reduce"] == "mean" else steps
    gradients = [gradient for rank in ranks for gradient in rank]
    reduced = [sum(values) / divisor for values in zip(*gradients)]
    if len(ranks) > 1:
        return [round(value, 12) for value in reduced]
    norm = math.hypot(*reduced)
    factor = min(1.0, run["limit"] / norm) if norm else 1.0
    return [round(value * factor, 12) for value in reduced]
