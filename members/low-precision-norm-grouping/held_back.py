"""Other values and groupings: many small tensors, float16, a limit at the rounded norm."""

from fractions import Fraction

from shardproof.failures.number_formats import root_near, significant, significant_root, stored


def ended(groups, limit):
    square = sum(Fraction(value) ** 2 for each in groups for value in each["values"])
    factor = min(Fraction(1), Fraction(limit) / root_near(square)) if square else Fraction(1)
    rows = [[significant(Fraction(stored(Fraction(v) * factor, g["dtype"]))) for v in g["values"]] for g in groups]
    return {"norm": significant_root(square), "factor": significant(factor), "values": rows}


def checks(n):
    scale = 2 ** (n % 6)
    many = [{"dtype": "bfloat16", "values": [value * scale]} for value in [160, *[5] * (4 + n % 5)]]
    halves = [{"dtype": "float16", "values": [100, 3, 1]}, {"dtype": "float16", "values": [2 + n % 7]}]
    stages = [{"dtype": "bfloat16", "values": [value * scale]} for value in (512, 8, 16)]
    cases = [
        ("many small tensors beside a large one", many, 100 * scale),
        ("float16 tensors", halves, 25),
        ("three stages", stages, 512 * scale),
        ("three stages in another order", stages[1:] + stages[:1], 512 * scale),
        ("no groups", [], 1),
    ]
    return [(label, (groups, limit), ended(groups, limit)) for label, groups, limit in cases]
