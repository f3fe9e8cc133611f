"""One set of bfloat16 values in several groupings, stages of unequal size, mixed formats."""

from fractions import Fraction

from shardproof.failures.number_formats import root_near, significant, significant_root, stored


def group(dtype, *values):
    return {"dtype": dtype, "values": list(values)}


def ended(groups, limit):
    square = sum(Fraction(value) ** 2 for each in groups for value in each["values"])
    factor = min(Fraction(1), Fraction(limit) / root_near(square)) if square else Fraction(1)
    rows = [[significant(Fraction(stored(Fraction(v) * factor, g["dtype"]))) for v in g["values"]] for g in groups]
    return {"norm": significant_root(square), "factor": significant(factor), "values": rows}


def cut(values, *at):
    return [group("bfloat16", *values[low:high]) for low, high in zip([0, *at], [*at, len(values)])]


def checks(n):
    scale = 2 ** (n % 5)
    values = [100 * scale] + [7 * scale] * (3 + n // 5 % 4)
    stages = [group("bfloat16", 256 * scale), group("bfloat16", 8 * scale)][:: 1 if n % 2 else -1]
    mixed = [group("bfloat16", 3 * scale), group("float32", 4 * scale)]
    half = [group("float16", 200 + n % 50, 200 + n % 50)]
    cases = [
        ("one group", cut(values), 200 * scale),
        ("each value its own group", cut(values, *range(1, len(values))), 200 * scale),
        ("two groups", cut(values, 2), 200 * scale),
        ("two groups in another order", cut(values, 2)[::-1], 200 * scale),
        ("half the norm, over three groups", cut(values, 1, 2), 50 * scale),
        ("a small stage beside a large one", stages, 128 * scale),
        ("float16 sum of squares above its range", half, 100),
        ("bfloat16 and float32, exact: cannot reveal the error", mixed, 2.5 * scale),
        (
            "an empty group: cannot reveal the error",
            [group("float32", 3 * n), group("float32"), group("float32", 4 * n)],
            n,
        ),
    ]
    return [(label, (groups, limit), ended(groups, limit)) for label, groups, limit in cases]
