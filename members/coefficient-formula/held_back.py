"""The same rule on thousandths, on one value, and just above the limit."""

from fractions import Fraction

from shardproof.failures.number_formats import significant


def checks(n):
    m = 1 + n % 97
    values = [0.006 * m, 0.008 * m]
    step = 2.0 ** -(18 + n % 10)
    return [
        (
            "thousandths, a limit a little above",
            (values, 0.0101 * m),
            {"norm": significant(Fraction(m, 100)), "values": [significant(Fraction(k * m, 1000)) for k in (6, 8)]},
        ),
        (
            "one value at the limit",
            ([-step], step),
            {"norm": significant(Fraction(step)), "values": [-significant(Fraction(step))]},
        ),
        (
            "one value at twice the limit",
            ([2 * step], step),
            {"norm": significant(Fraction(2 * step)), "values": [significant(Fraction(step))]},
        ),
        ("an empty gradient and a zero limit", ([], 0), {"norm": 0, "values": []}),
        ("a single value far below the limit", ([m], 1000 * m), {"norm": m, "values": [m]}),
    ]
