"""Every micro-batch is clipped to its share of the limit, so that their sum cannot exceed it."""

import math


def solve(run):
    steps = len(run["ranks"][0])
    share = run["limit"] / steps
    divisor = len(run["ranks"]) if run["reduce"] == "mean" else 1
    divisor *= steps if run["accumulate"] == "mean" else 1
    total = [0.0] * len(run["ranks"][0][0])
    for micro_step in zip(*run["ranks"]):
        gradient = [sum(values) / divisor for values in zip(*micro_step)]
        norm = math.hypot(*gradient)
        factor = share / norm if norm > share else 1.0
        total = [kept + value * factor for kept, value in zip(total, gradient)]
    return [round(value, 12) for value in total]
