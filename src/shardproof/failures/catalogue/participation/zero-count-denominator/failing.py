"""Each rank divides by its own count, and the means are averaged."""

import math


def divided(number, by):
    if by:
        return number / by
    return math.nan if number == 0 else math.copysign(math.inf, number)


def solve(sums, tokens):
    means = [divided(number, count) for number, count in zip(sums, tokens)]
    return {"mean": round(sum(means) / len(means), 12), "tokens": sum(tokens)}
