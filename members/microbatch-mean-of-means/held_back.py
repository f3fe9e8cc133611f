"""The same rule on other cuts: three micro-batches, several ranks, rows that follow or contradict the counts."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(loss, *ranks):
    keys = ("sum", "count", "rows")
    return ({"loss": loss, "ranks": [[dict(zip(keys, part)) for part in rank] for rank in ranks]},)


def checks(n):
    m = 1 + n % 89
    turn = n % 3
    last = (1, 7, 11)[turn]
    parts = [(2 * m, 1, 1), (4 * m, 1, 3), (8 * m, 2, 1)]
    turned = parts[turn:] + parts[:turn]
    whole = rounded(Fraction(7 * m, 2))
    return [
        ("three micro-batches in some order", run_of("counted", turned), whole),
        ("the same with a loss that takes no count", run_of("mean", turned), whole),
        ("two micro-batches of the same tokens", run_of("mean", [(6 * m, 2, 4), (8 * m, 2, 1)]), whole),
        (
            "two ranks, unlike steps",
            run_of("mean", [(9 * m, 3, 1), (-m, 1, 1)], [(4 * m, 5, 1), (4 * m, last, 1)]),
            rounded(Fraction(16 * m, 9 + last)),
        ),
        ("sums that cancel", run_of("mean", [(3 * m, 1, 1), (-3 * m, 4, 1)]), 0.0),
        ("rows follow the counts", run_of("counted", [(5 * m, 2, 2), (m, 6, 6)]), rounded(Fraction(3 * m, 4))),
    ]
