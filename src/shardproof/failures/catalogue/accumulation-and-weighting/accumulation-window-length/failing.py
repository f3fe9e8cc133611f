"""Only full windows are stepped; the divisor is counted once for each generated batch."""

import math


def solve(run):
    micro, every, batch = run["micro"], run["every"], run["counted_over"]
    steps = []
    for start in range(0, len(micro) - every + 1, every):
        generated = micro[start // batch * batch :][:batch]
        items = sum(part["count"] for part in generated)
        sums = [part["sum"] for part in micro[start : start + every]]
        steps.append(round(sum(value for value in sums if math.isfinite(value)) / items, 12))
    return steps
