"""Every call is added; the buffer starts from nothing after each boundary, whether it was stepped or skipped."""

import math


def solve(run):
    results = []
    for calls in run["windows"]:
        total = [0] * len(calls[0])
        for gradient in calls:
            for at, value in enumerate(gradient):
                total[at] += value
        if all(math.isfinite(value) for gradient in calls for value in gradient):
            results.append([round(run["factor"] * value, 12) for value in total])
        else:
            results.append("skip")
    return results
