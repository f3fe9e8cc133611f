"""The same rule on other lengths and orders."""

from fractions import Fraction

from shardproof.failures.number_formats import significant, stored


def total(terms):
    return significant(sum(Fraction(value) * times for value, times in terms))


def checks(n):
    scale = 2 ** (n % 4)
    grown = [[scale, 300 + n % 50]]
    falling = [[2048 * scale, 1], [scale, 3 + n % 4], [-2048 * scale, 1]]
    mixed = [[65504, 2], [2.0**-14 * (1 + n % 7), 1]]
    kept = Fraction(stored((Fraction(2 * 65504) + Fraction(1 + n % 7, 2**14)) / 3, "float16"))
    return [
        ("bfloat16 ones", ("bfloat16", grown, False), total(grown)),
        ("float16 terms that cancel", ("float16", falling, False), total(falling)),
        ("float16 mean of the largest number", ("float16", mixed, True), significant(kept)),
        ("sizes of many tensors", ("int32", [[2**20 + n, 4096]], False), 4096 * (2**20 + n)),
        ("no terms", ("float32", [], n % 2 == 0), 0),
    ]
