"""Zero gradients, the norm at, under and over the limit, and norms that an epsilon can be seen beside."""

from fractions import Fraction

from shardproof.failures.number_formats import significant


def ended(values, norm, factor=1):
    return {
        "norm": significant(Fraction(norm)),
        "values": [significant(Fraction(value) * Fraction(factor)) for value in values],
    }


def checks(n):
    m, zeros = 1 + n % 97, [0] * (1 + n % 4)
    values = [3 * m, 4 * m] if n % 2 else [0, -4 * m, 3 * m]
    small = [3 * m / 2**12, 4 * m / 2**12]
    tiny = [m / 2**40] * (1 + n % 4) ** 2
    return [
        ("zero gradient and a zero limit", (zeros, 0), ended(zeros, 0)),
        ("zero gradient", (zeros, m), ended(zeros, 0)),
        ("norm is the limit", (values, 5 * m), ended(values, 5 * m)),
        ("under the limit nothing grows", (values, 10 * m), ended(values, 5 * m)),
        ("small gradient at the limit", (small, 5 * m / 2**12), ended(small, 5 * Fraction(m, 2**12))),
        ("factor of a fifth", (values, m), ended(values, 5 * m, Fraction(1, 5))),
        (
            "norm far below an epsilon",
            (tiny, m / 2**41),
            ended(tiny, Fraction(m * (1 + n % 4), 2**40), Fraction(1, 2 * (1 + n % 4))),
        ),
        ("zero limit: cannot reveal the error", (values, 0), ended(values, 5 * m, 0)),
        ("no limit: cannot reveal the error", (values, None), ended(values, 5 * m)),
    ]
