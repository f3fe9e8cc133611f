"""Sums and counts are added over all ranks, and divided once."""

import math


def solve(sums, tokens):
    for number, count in zip(sums, tokens):
        if count == 0 and number != 0:
            raise ValueError(f"Expected a sum of 0 over no tokens, got {number!r}.")
    total, count = math.fsum(sums), sum(tokens)
    return {"mean": round(total / count, 12) if count else 0.0, "tokens": count}
