"""Each rank divides by its own count, but at least by one, and the means are averaged."""


def solve(sums, tokens):
    means = [number / max(1, count) for number, count in zip(sums, tokens)]
    return {"mean": round(sum(means) / len(means), 12), "tokens": sum(tokens)}
