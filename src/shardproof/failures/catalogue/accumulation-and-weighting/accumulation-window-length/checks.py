"""Short last windows, counts of another window, and micro-batches that were discarded."""

from fractions import Fraction

from shardproof.failures.exact import rounded

NAN = float("nan")


def run_of(every, parts, counted_over=None):
    return (
        {"micro": [{"sum": s, "count": c} for s, c in parts], "every": every, "counted_over": counted_over or every},
    )


def epoch(m, n):
    """Up to four full windows of two to four micro-batches and a shorter last one; every count is one or two."""
    every = 2 + n % 3
    length = every * (1 + n % 4) + 1 + n % (every - 1)
    parts = [(m * (1 + (i + n) % 5) * 2, 2 if every == 3 else 1) for i in range(length)]
    windows = [parts[start : start + every] for start in range(0, length, every)]
    return every, parts, [Fraction(sum(s for s, _ in w), sum(c for _, c in w)) for w in windows]


def checks(n):
    m = 1 + (n - 1) % 97
    every, parts, means = epoch(m, n)
    full = [(2 * m, 1), (4 * m, 1), (6 * m, 1), (8 * m, 1)]
    return [
        ("a tail of two in windows of four", run_of(4, [*full, (3 * m, 1), (5 * m, 1)]), [5 * m, 4 * m]),
        ("a tail of one in windows of two", run_of(2, [(6 * m, 1)]), [6 * m]),
        ("fewer micro-batches than a window", run_of(4, [(m, 1), (2 * m, 1), (6 * m, 1)]), [3 * m]),
        ("an epoch with a tail", run_of(every, parts), [rounded(mean) for mean in means]),
        (
            "counted over two windows",
            run_of(2, [(4 * m, 2), (8 * m, 4), (6 * m, 3), (6 * m, 3)], 4),
            [2 * m, 2 * m],
        ),
        ("a discarded micro-batch", run_of(2, [(6 * m, 3), (NAN, 3)]), [2 * m]),
        ("a discarded window", run_of(2, [(NAN, 1), (NAN, 2), (4 * m, 1), (8 * m, 2)]), [4 * m]),
        ("whole windows: cannot reveal the error", run_of(2, [*full[::-1]]), [7 * m, 3 * m]),
        ("windows of one: cannot reveal the error", run_of(1, [(3 * m, 2), (5 * m, 4)]), [1.5 * m, 1.25 * m]),
    ]
