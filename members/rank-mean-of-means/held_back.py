"""The same rule on other worlds: one to five more ranks, several micro-batches, counts that are nought."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(loss, *ranks):
    return ({"loss": loss, "ranks": [[{"sum": s, "count": c, "rows": 1} for s, c in rank] for rank in ranks]},)


def checks(n):
    m = 1 + n % 89
    idle = [[(0, 0)]] * (n % 5)
    full = [[(12 * m, 4)], [(3 * m, 1)]]
    turned = full[n % 2 :] + idle + full[: n % 2]
    return [
        ("two ranks among idle ones", run_of("counted", *turned), rounded(3 * m)),
        ("fifteen and one", run_of("mean", [(3 * m, 15)], [(5 * m, 1)]), rounded(Fraction(m, 2))),
        (
            "micro-batches on each rank",
            run_of("counted", [(m, 1), (2 * m, 3)], [(-m, 2), (6 * m, 10)]),
            rounded(Fraction(m, 2)),
        ),
        ("sums that cancel over ranks", run_of("mean", [(4 * m, 1)], [(-4 * m, 7)]), 0.0),
        ("three ranks", run_of("counted", [(m, 1)], [(m, 2)], [(8 * m, 7)]), rounded(m)),
    ]
