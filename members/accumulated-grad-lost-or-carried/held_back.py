"""The same rule where calls and configuration disagree otherwise, and where skipped windows are in other places."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(every, factor, *windows):
    return ({"windows": list(windows), "every": every, "factor": factor},)


def checks(n):
    m = 1 + n % 89
    more = 2 + n % 5
    infinite = float("inf") if n % 2 else float("-inf")
    return [
        (
            "many calls where one is configured",
            run_of(1, 0.5, [[m * (i + 1)] for i in range(more)]),
            [[rounded(Fraction(m * more * (more + 1), 4))]],
        ),
        ("fewer calls than configured", run_of(more + 1, 1, [[m], [2 * m]][:more], [[3 * m]]), [[3 * m], [3 * m]]),
        (
            "infinite in the first call",
            run_of(2, 1, [[infinite], [m]], [[m], [m]], [[m], [2 * m]]),
            ["skip", [2 * m], [3 * m]],
        ),
        (
            "two skipped windows",
            run_of(2, 1, [[m], [infinite]], [[infinite], [m]], [[m], [4 * m]]),
            ["skip", "skip", [5 * m]],
        ),
        ("parts that cancel", run_of(1, 1, [[m, 0], [-m, 3 * m]]), [[0, 3 * m]]),
    ]
