"""Both kinds of loss under no, one, two and three layers that would divide."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(loss, dividers, *parts):
    return ({"micro": [{"sum": s, "count": c} for s, c in parts], "loss": loss, "dividers": list(dividers)},)


def rotated(values, n):
    cut = n % len(values)
    return [*values[cut:], *values[:cut]]


def checks(n):
    m = 1 + (n - 1) % 97
    k = 2 ** (1 + n % 4)
    means = rotated([(2 * m, 1), (4 * m, 1), (6 * m, 1), (8 * m, 1)], n - 1)
    layers = rotated(["trainer", "engine", "schedule"], n - 1)
    shares = rotated([(2 * m, 1), (4 * m, 2), (2 * m, 1), (4 * m, 2)], n - 1)
    return [
        ("trainer and engine would both divide", run_of("mean", ["trainer", "engine"], *means), rounded(5 * m)),
        ("all three layers would divide", run_of("mean", layers, *[(3 * m, 1)] * k), rounded(3 * m)),
        ("no layer would divide a plain mean", run_of("mean", [], *[(m, 2)] * 8), rounded(Fraction(m, 2))),
        ("only the engine would divide a plain mean", run_of("mean", ["engine"], *[(m, 1)] * k), rounded(m)),
        ("the count is in the loss, the trainer would divide", run_of("counted", ["trainer"], *shares), rounded(2 * m)),
        (
            "the count is in the loss, the schedule would divide",
            run_of("counted", ["schedule"], (6 * m, 2), (12 * m, 2), (18 * m, 2)),
            rounded(6 * m),
        ),
        (
            "unlike counts under the trainer",
            run_of("counted", ["trainer"], (2 * m, 1), (12 * m, 3)),
            rounded(Fraction(7 * m, 2)),
        ),
        (
            "the count is in the loss, nobody divides: cannot reveal the error",
            run_of("counted", [], (2 * m, 1), (12 * m, 3)),
            rounded(Fraction(7 * m, 2)),
        ),
        (
            "one micro-batch: cannot reveal the error",
            run_of("mean", layers[: n % 4], (5 * m, 2)),
            rounded(Fraction(5 * m, 2)),
        ),
    ]
