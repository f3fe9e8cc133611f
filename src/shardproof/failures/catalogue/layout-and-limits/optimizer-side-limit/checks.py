"""Orthogonalised layers beside scaled ones, draws of other sizes than expected, limits of several layers."""

from fractions import Fraction

from shardproof.failures.number_formats import significant, significant_root


def layer(size, limit, name="all", rule="scaled"):
    return {"rule": rule, "size": size, "name": name, "limit": limit}


def row(*values):
    return [significant(Fraction(value)) for value in values]


def checks(n):
    m, many = 1 + n % 97, 2 + n % 7
    plain, other = layer(2, m), layer(2, m, rule="orthogonalised")
    mixed = [[[0.5 * m, 0.5 * m], [30 * m, 40 * m]]]
    drawn = [[[3 * m, 4 * m]], [[0, 0.5 * m]]]
    each = [layer(1, 1, name=f"layer {index}") for index in range(many)]
    squares = [layer(1, limit, name=f"layer {limit}") for limit in (3 * m, 4 * m)]
    turned = [[[30 * m, 40 * m], [3 * m, 4 * m]]]
    half = Fraction(m, 2)
    return [
        (
            "scaled layer under the limit, orthogonalised one far above",
            (mixed, [plain, other], 1),
            {"update": [row(half, half), row(30 * m, 40 * m)], "bound": m},
        ),
        (
            "scaled layer over the limit, orthogonalised one first",
            (turned, [other, plain], 1),
            {"update": [row(30 * m, 40 * m), row(Fraction(3 * m, 5), Fraction(4 * m, 5))], "bound": m},
        ),
        (
            "two samples drawn, four expected",
            (drawn, [plain], 4),
            {"update": [row(Fraction(3 * m, 20), Fraction(13 * m, 40))], "bound": m},
        ),
        (
            "two samples drawn, one expected",
            (drawn, [plain], 1),
            {"update": [row(Fraction(3 * m, 5), Fraction(13 * m, 10))], "bound": m},
        ),
        (
            "several layers with a limit of one each",
            ([[[2] for _ in each]], each, 1),
            {"update": [[1] for _ in each], "bound": significant_root(many)},
        ),
        (
            "two layers with unequal limits",
            ([[[6 * m], [m]]], squares, 1),
            {"update": [[3 * m], [m]], "bound": 5 * m},
        ),
        ("no samples drawn", ([], [plain], 1 + n % 5), {"update": [[0, 0]], "bound": m}),
        (
            "as many drawn as expected, one rule: cannot reveal the error",
            (drawn, [plain], 2),
            {"update": [row(Fraction(3 * m, 10), Fraction(13 * m, 20))], "bound": m},
        ),
    ]
