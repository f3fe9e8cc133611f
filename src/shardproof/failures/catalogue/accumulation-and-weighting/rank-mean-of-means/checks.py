"""Ranks of unlike counts: two ranks, a last batch, a rank without tokens, and worlds in which nothing can be seen."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def part(total, count, rows=1):
    return {"sum": total, "count": count, "rows": rows}


def ranks(*parts, loss="counted"):
    return ({"loss": loss, "ranks": [[entry] for entry in parts]},)


def split(m, n):
    """Eighty tokens over two to four ranks with one to three micro-batches each."""
    world, steps = 2 + n % 3, 1 + n // 3 % 3
    counts = [1 + (i * i + n) % 4 for i in range(world * steps - 1)]
    counts.append(80 - sum(counts))
    parts = [part(m * (1 + (i + n) % 5), count) for i, count in enumerate(counts)]
    cut = [parts[rank * steps : (rank + 1) * steps] for rank in range(world)]
    turned = cut[n % world :] + cut[: n % world]
    return {"loss": "counted" if n % 2 else "mean", "ranks": turned}, sum(p["sum"] for p in parts)


def checks(n):
    m = 1 + (n - 1) % 97
    run, total = split(m, n)
    return [
        ("two ranks of unlike counts", ranks(part(8 * m, 8), part(8 * m, 2)), rounded(Fraction(8 * m, 5))),
        ("a quarter of the tokens on one rank", ranks(part(6 * m, 3), part(6 * m, 1)), rounded(3 * m)),
        ("one token against ten", ranks(part(10, 10), part(2, 1)), rounded(Fraction(12, 11))),
        ("one rank adds nothing", ranks(part(0, 1), part(9 * m, 9)), rounded(Fraction(9 * m, 10))),
        ("one rank has no tokens", ranks(part(0, 0), part(9 * m, 9)), rounded(m)),
        (
            "a last batch of four rows and one",
            ranks(part(4 * m, 4, 4), part(2 * m, 1), loss="mean"),
            rounded(Fraction(6 * m, 5)),
        ),
        ("eighty tokens in some split", (run,), rounded(Fraction(total, 80))),
        ("no tokens on any rank", ranks(part(0, 0), part(0, 0)), 0.0),
        ("equal counts: the average of means is right", ranks(part(4 * m, 2), part(8 * m, 2)), rounded(3 * m)),
        ("single rank: cannot reveal the error", ranks(part(7 * m, 2)), rounded(Fraction(7 * m, 2))),
    ]
