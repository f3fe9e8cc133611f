"""Values whose squares leave float16 or float32 above and below, and values whose squares stay inside."""

from fractions import Fraction

from shardproof.failures.number_formats import significant, significant_root, stored


def half(*values):
    return {"dtype": "float16", "values": list(values)}


def single(*values):
    return {"dtype": "float32", "values": list(values)}


def ended(groups, limit, norm):
    factor = min(Fraction(1), Fraction(limit) / norm)
    rows = [[significant(Fraction(stored(Fraction(v) * factor, g["dtype"]))) for v in g["values"]] for g in groups]
    return {"norm": significant(norm), "factor": significant(factor), "values": rows}


def checks(n):
    large, step = 300 + n % 200, 8 * (26 + n % 100)
    tiny = 2.0 ** -(13 + n % 3)
    cut = 1 + n % 3
    small = [half(*[tiny] * cut), half(*[tiny] * (4 - cut))]
    ranks = [half(3 * step), half(4 * step)] if n % 2 else [half(4 * step), half(), half(3 * step)]
    up, down = 2.0 ** (70 + n % 50), 2.0 ** -(80 + n % 40)
    above, below = [single(3 * up), single(4 * up)], [single(3 * down, 4 * down)]
    pair, inside = 200 + n % 50, [single(3 * n), single(4 * n)]
    return [
        ("a float16 square above the largest float16", ([half(large)], 1), ended([half(large)], 1, large)),
        ("float16 norms of ranks in the thousands", (ranks, 5), ended(ranks, 5, 5 * step)),
        ("float16 squares below the smallest float16", (small, tiny), ended(small, tiny, Fraction(2 * tiny))),
        ("float32 squares above the largest float32", (above, 10), ended(above, 10, Fraction(5 * up))),
        (
            "float32 squares below the smallest float32",
            (below, 2.5 * down),
            ended(below, 2.5 * down, Fraction(5 * down)),
        ),
        (
            "float16 squares fit, their sum does not",
            ([half(pair, pair)], 1000),
            {"norm": significant_root(2 * pair * pair), "factor": 1.0, "values": [[pair, pair]]},
        ),
        ("the first float16 whose square does not fit", ([half(256)], 300), ended([half(256)], 300, 256)),
        (
            "the last float16 whose square fits",
            ([half(255.875)], 300),
            ended([half(255.875)], 300, Fraction(2047, 8)),
        ),
        ("squares inside float32: cannot reveal the error", (inside, 2.5 * n), ended(inside, 2.5 * n, 5 * n)),
        ("nothing: cannot reveal the error", ([half(), single()], n), {"norm": 0, "factor": 1, "values": [[], []]}),
    ]
