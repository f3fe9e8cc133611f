"""The same rule with shared limits, only orthogonalised layers, and longer draws."""

from fractions import Fraction

from shardproof.failures.number_formats import significant, significant_root


def checks(n):
    m = 1 + n % 97
    first = {"rule": "scaled", "size": 1, "name": "body", "limit": m}
    turned = {"rule": "orthogonalised", "size": 2, "name": "body", "limit": m}
    head = {"rule": "scaled", "size": 1, "name": "head", "limit": 2 * m}
    drawn = 1 + n % 6
    return [
        (
            "two layers share a limit, a third is left out",
            ([[[3 * m], [5 * m, 7 * m], [4 * m]]], [first, turned, first], 2),
            {
                "update": [
                    [significant(Fraction(3 * m, 10))],
                    [significant(Fraction(5 * m, 2)), significant(Fraction(7 * m, 2))],
                    [significant(Fraction(2 * m, 5))],
                ],
                "bound": m,
            },
        ),
        (
            "only orthogonalised layers",
            ([[[5 * m, 12 * m]]], [turned], 1),
            {"update": [[5 * m, 12 * m]], "bound": 0},
        ),
        (
            "more drawn than expected",
            ([[[m], [4 * m]] for _ in range(drawn + 8)], [first, head], 8),
            {
                "update": [[significant(Fraction(m * (drawn + 8), 8))], [significant(Fraction(m * (drawn + 8), 4))]],
                "bound": significant_root(5 * m * m),
            },
        ),
    ]
