"""The same rule on other epochs: infinite sums, tails with unlike counts, windows longer than a generated batch."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(every, counted_over, *parts):
    return ({"micro": [{"sum": s, "count": c} for s, c in parts], "every": every, "counted_over": counted_over},)


def checks(n):
    m = 1 + n % 89
    every = 3 + n % 5
    tail = 1 + n % (every - 1)
    infinite = float("inf") if n % 2 else float("-inf")
    return [
        (
            "a tail of some length",
            run_of(every, every, *[(4 * m, 5)] * (every + tail)),
            [rounded(Fraction(4 * m, 5))] * 2,
        ),
        ("unlike counts in the tail", run_of(3, 3, (9 * m, 3), (-m, 1)), [2 * m]),
        ("an infinite sum", run_of(2, 2, (infinite, 7), (3 * m, 2)), [1.5 * m]),
        ("an infinite sum in the tail", run_of(2, 2, (m, 1), (3 * m, 3), (infinite, 7)), [m]),
        ("a window over two generated batches", run_of(4, 2, *[(m, 1), (m, 1), (7 * m, 1), (m, 1)]), [2.5 * m]),
        ("no micro-batch", run_of(every, 2 * every), []),
    ]
