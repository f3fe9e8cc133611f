"""The same rule with other numbers of micro-batches and other layers."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(loss, dividers, sums, counts):
    return ({"micro": [{"sum": s, "count": c} for s, c in zip(sums, counts)], "loss": loss, "dividers": dividers},)


def checks(n):
    m = 1 + n % 89
    steps = 2 + n % 7
    rising = [m * (i + 1) for i in range(steps)]
    alone = ["engine", "schedule"][n % 2]
    return [
        ("one layer of any name", run_of("mean", [alone], rising, [1] * steps), rounded(Fraction(m * (steps + 1), 2))),
        ("engine and schedule", run_of("mean", ["engine", "schedule"], [8 * m, -m], [4, 1]), rounded(Fraction(m, 2))),
        (
            "every layer over a counted loss",
            run_of("counted", ["engine", "trainer", "schedule"], [9 * m, m], [1, 3]),
            rounded(Fraction(5 * m, 2)),
        ),
        ("a counted loss alone", run_of("counted", [], [9 * m, m, m], [1, 1, 3]), rounded(Fraction(11 * m, 5))),
        ("unlike counts of plain means", run_of("mean", [], [6 * m, m], [3, 1]), rounded(Fraction(3 * m, 2))),
    ]
