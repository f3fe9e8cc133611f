"""The same rule for bfloat16, mixed formats, signs and other cuts."""

from fractions import Fraction

from shardproof.failures.number_formats import significant, significant_root, stored


def group(dtype, *values):
    return {"dtype": dtype, "values": list(values)}


def ended(groups, limit, norm):
    factor = min(Fraction(1), Fraction(limit) / norm)
    rows = [[significant(Fraction(stored(Fraction(v) * factor, g["dtype"]))) for v in g["values"]] for g in groups]
    return {"norm": significant(norm), "factor": significant(factor), "values": rows}


def checks(n):
    up, down = 2.0 ** (66 + n % 60), 2.0 ** -(76 + n % 40)
    brain = [group("bfloat16", 2 * up), group("bfloat16", -up, 2 * up)]
    mixed = [group("float32", 8 * down), group("bfloat16", 4 * down, down)]
    equal = [group("float16", 512 + 2 * (n % 200)) for _ in range(4)]
    large = group("float16", 2000, 2000 - n % 97)
    return [
        ("bfloat16 squares above the range", (brain, 1.5 * up), ended(brain, 1.5 * up, Fraction(3 * up))),
        ("mixed formats below the range", (mixed, 4.5 * down), ended(mixed, 4.5 * down, Fraction(9 * down))),
        ("four float16 ranks", (equal, 64), ended(equal, 64, 2 * equal[0]["values"][0])),
        (
            "a norm that is no integer",
            ([large], 10000),
            {
                "norm": significant_root(2000**2 + (2000 - n % 97) ** 2),
                "factor": 1,
                "values": [large["values"]],
            },
        ),
        ("zero limit", (brain, 0), {"norm": significant(Fraction(3 * up)), "factor": 0, "values": [[0], [0, 0]]}),
    ]
