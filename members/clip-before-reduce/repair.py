"""Reduce everything, then clip what was reduced, once."""

import math


def solve(run):
    total = [0] * len(run["ranks"][0][0])
    for micro_batches in run["ranks"]:
        for gradient in micro_batches:
            total = [kept + value for kept, value in zip(total, gradient)]
    shares = (len(run["ranks"]) if run["reduce"] == "mean" else 1) * (
        len(run["ranks"][0]) if run["accumulate"] == "mean" else 1
    )
    reduced = [value / shares for value in total]
    norm = math.sqrt(math.fsum(value * value for value in reduced))
    if norm > run["limit"]:
        reduced = [value * run["limit"] / norm for value in reduced]
    return [round(value, 12) for value in reduced]
