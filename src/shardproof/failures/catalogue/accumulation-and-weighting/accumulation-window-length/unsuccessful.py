"""The tail is flushed too and each window uses its own counts; every micro-batch still weighs 1 / every."""

import math


def solve(run):
    micro, every = run["micro"], run["every"]
    steps = []
    for start in range(0, len(micro), every):
        window = micro[start : start + every]
        kept = [part for part in window if math.isfinite(part["sum"])]
        if kept:
            mean = sum(part["sum"] for part in kept) / sum(part["count"] for part in kept)
            steps.append(round(mean * len(window) / every, 12))
    return steps
