"""Micro-batches of one step: unlike counts, both kinds of loss, and splits that must not matter."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def part(total, count, rows=1):
    return {"sum": total, "count": count, "rows": rows}


def one_rank(*parts, loss="counted"):
    return ({"loss": loss, "ranks": [list(parts)]},)


def split(m, n):
    """Forty tokens over one to three ranks and two or three micro-batches."""
    world, steps = 1 + n % 3, 2 + n % 2
    counts = [1 + (i + n) % 3 for i in range(world * steps - 1)]
    counts.append(40 - sum(counts))
    parts = [part(m * (1 + (i * n) % 7), count) for i, count in enumerate(counts)]
    ranks = [parts[rank * steps : (rank + 1) * steps] for rank in range(world)]
    return {"loss": "mean" if n % 2 else "counted", "ranks": ranks}, sum(p["sum"] for p in parts)


def checks(n):
    m = 1 + (n - 1) % 97
    run, total = split(m, n)
    return [
        ("two micro-batches of unlike counts", one_rank(part(2 * m, 1), part(12 * m, 3)), rounded(Fraction(7 * m, 2))),
        (
            "loss that takes no count",
            one_rank(part(4 * m, 4), part(4 * m, 1), loss="mean"),
            rounded(Fraction(8 * m, 5)),
        ),
        ("rows alike, counts not", one_rank(part(6 * m, 2, 2), part(6 * m, 6, 2)), rounded(Fraction(3 * m, 2))),
        ("a micro-batch without tokens", one_rank(part(0, 0), part(5 * m, 5)), rounded(m)),
        ("a mean of sevenths", one_rank(part(10, 5), part(2, 2), loss="mean"), rounded(Fraction(12, 7))),
        ("forty tokens in some split", (run,), rounded(Fraction(total, 40))),
        ("no tokens at all", one_rank(part(0, 0), part(0, 0)), 0.0),
        (
            "equal counts: cannot reveal the error",
            one_rank(part(4 * m, 2), part(8 * m, 2)),
            rounded(3 * m),
        ),
        (
            "one micro-batch: cannot reveal the error",
            one_rank(part(6 * m, 4, 2), loss="mean"),
            rounded(Fraction(3 * m, 2)),
        ),
    ]
