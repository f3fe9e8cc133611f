"""Ranks of unlike, opposite and equal gradients, reduced by sum and by mean, above and below the limit."""

from fractions import Fraction

from shardproof.failures.exact import scaled


def run_of(reduce, limit, *ranks, accumulate="sum"):
    return ({"ranks": list(ranks), "accumulate": accumulate, "buffer": "grad", "reduce": reduce, "limit": limit},)


def apart(m, n):
    """Two to four ranks whose mean is [3m, 4m]: what each rank has beside it cancels over the ranks."""
    world = 2 + n % 3
    ranks = [[[m * (3 + 2 * rank - (world - 1)), 4 * m]] for rank in range(world)]
    return ranks[n % world :] + ranks[: n % world]


def checks(n):
    m = 1 + (n - 1) % 97
    tenths = 1 + n % 9  # the limit, in tenths of the norm
    return [
        ("one of two ranks has a gradient", run_of("mean", 5 * m, [[6 * m, 8 * m]], [[0, 0]]), [3 * m, 4 * m]),
        ("ranks at right angles", run_of("mean", 3 * m, [[9 * m, 0]], [[0, 12 * m]]), scaled([9 * m, 12 * m], 1, 5)),
        ("summed, half of it cancels", run_of("sum", 4 * m, [[3 * m, 4 * m]], [[-3 * m, 4 * m]]), [0, 4 * m]),
        (
            "some ranks around one mean",
            run_of("mean", m * tenths, *apart(2 * m, n)),
            scaled([6 * m, 8 * m], Fraction(tenths, 10), 1),
        ),
        (
            "two micro-batches on each rank",
            run_of("sum", 2.5 * m, [[6 * m, 0], [0, 0]], [[0, 0], [0, 8 * m]], accumulate="mean"),
            [1.5 * m, 2 * m],
        ),
        ("equal gradients", run_of("mean", m, [[3 * m, 4 * m]], [[3 * m, 4 * m]]), scaled([3 * m, 4 * m], 1, 5)),
        ("limit zero", run_of("sum", 0, [[3 * m, 4 * m]], [[m, 0]]), [0, 0]),
        ("opposite gradients: cannot reveal the error", run_of("mean", m, [[5 * m, 0]], [[-5 * m, 0]]), [0, 0]),
        ("all below the limit: cannot reveal the error", run_of("sum", 9 * m, [[3 * m, 0]], [[0, m]]), [3 * m, m]),
        ("single rank: cannot reveal the error", run_of("mean", 5 * m, [[6 * m, 8 * m]]), [3 * m, 4 * m]),
    ]
