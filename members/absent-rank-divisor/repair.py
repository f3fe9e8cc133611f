"""The stated rule gives the divisor on every step; without one there is no step."""

import math


def divisor(ranks, present, rule):
    if rule == "tokens":
        return sum(rank["tokens"] for rank in present)
    return {"initial": len(ranks), "present": len(present)}[rule]


def solve(ranks, rule):
    present = [rank for rank in ranks if rank is not None]
    count = divisor(ranks, present, rule)
    if not present or not count:
        return None
    gradients = [rank["gradient"] for rank in present]
    return [round(math.fsum(values) / count, 12) for values in zip(*gradients)]
