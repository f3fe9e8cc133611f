"""The same rule with other factors, longer windows, and an infinite call between two finite steps."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(factor, *windows):
    return ({"windows": list(windows), "every": 2, "factor": factor},)


def checks(n):
    m = 1 + n % 89
    count = 2 + n % 6
    calls = [[m * (1 + (i + n) % 4)] for i in range(count)]
    total = sum(call[0] for call in calls)
    return [
        ("eighths", run_of(0.125, calls), [[rounded(Fraction(total, 8))]]),
        ("doubled", run_of(2, calls), [[2 * total]]),
        ("parts that cancel", run_of(0.5, [[3 * m], [-m], [-2 * m]]), [[0]]),
        (
            "an infinite call between two steps",
            run_of(0.5, [[m], [m]], [[float("inf")], [m]], [[4 * m], [2 * m]]),
            [[m], "skip", [3 * m]],
        ),
        ("two steps of unlike length", run_of(0.25, calls, [[4 * m]]), [[rounded(Fraction(total, 4))], [m]]),
    ]
