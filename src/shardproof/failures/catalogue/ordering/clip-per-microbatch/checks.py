"""Micro-batches that cancel, that are at right angles and that agree, in one buffer and apart from it."""

from fractions import Fraction

from shardproof.failures.exact import root, scaled


def run_of(how, limit, *gradients, buffer="grad"):
    ranks = [list(gradients)]
    return ({"ranks": ranks, "accumulate": how, "buffer": buffer, "reduce": "sum", "limit": limit},)


def around(m, n):
    """Two to four micro-batches on one to three ranks; ranks and micro-batches have [3m, 4m] as their mean."""
    steps, world = 2 + n % 3, 1 + n % 2
    return [
        [[m * (3 + 2 * step - (steps - 1)), m * (4 + 2 * rank - (world - 1))] for step in range(steps)]
        for rank in range(world)
    ]


def checks(n):
    m = 1 + (n - 1) % 97
    tenths = 1 + n % 9  # the limit, in tenths of the norm
    several = {
        "ranks": around(2 * m, n),
        "accumulate": "mean",
        "buffer": ("grad", "apart")[n % 2],
        "reduce": "mean",
        "limit": m * tenths,
    }
    return [
        ("half of the first is taken back", run_of("sum", 5 * m, [6 * m, 8 * m], [-3 * m, -4 * m]), [3 * m, 4 * m]),
        ("at right angles", run_of("sum", 5 * m, [6 * m, 0], [0, 8 * m]), [3 * m, 4 * m]),
        ("one coordinate cancels", run_of("sum", 2 * m, [10 * m, 0], [-10 * m, m]), [0, m]),
        ("the parts exceed the limit, the sum does not", run_of("sum", 2 * m, [6 * m, 0], [-5 * m, 0]), [m, 0]),
        (
            "clipped apart, then averaged",
            run_of("mean", 5 * m, [6 * m, 8 * m], [-6 * m, 8 * m], buffer="apart"),
            [0, 5 * m],
        ),
        (
            "a large part and a small one, averaged",
            run_of("mean", 2, [8, 0], [0, 2], buffer="apart"),
            [root(Fraction(64, 17)), root(Fraction(4, 17))],
        ),
        ("some micro-batches on some ranks", (several,), scaled([6 * m, 8 * m], Fraction(tenths, 10), 1)),
        ("equal parts: cannot reveal the error", run_of("sum", 5 * m, [3 * m, 4 * m], [3 * m, 4 * m]), [3 * m, 4 * m]),
        ("all far below the limit: cannot reveal the error", run_of("sum", 9 * m, [m, 0], [0, 2 * m]), [m, 2 * m]),
        ("one micro-batch: cannot reveal the error", run_of("mean", 5 * m, [6 * m, 8 * m]), [3 * m, 4 * m]),
    ]
