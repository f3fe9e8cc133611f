"""One to five calls before a step, with factors below, at and above one, in both orders."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(factor, *windows):
    return ({"windows": list(windows), "every": len(windows[0]), "factor": factor},)


def column(calls, at):
    return sum(call[at] for call in calls)


def checks(n):
    m = 1 + (n - 1) % 97
    count, factor = 2 + n % 4, (0.5, 0.25, 1.5)[n % 3]
    calls = [[m * (i + 1), (-1) ** i * (i + n % 5)] for i in range(count)]
    total = [rounded(Fraction(factor) * column(calls, at)) for at in (0, 1)]
    return [
        ("three calls, halved", run_of(0.5, [[8 * m], [8 * m], [8 * m]]), [[12 * m]]),
        ("two calls, halved", run_of(0.5, [[4 * m], [4 * m]]), [[4 * m]]),
        ("four calls, quartered", run_of(0.25, [[4 * m]] * 4), [[4 * m]]),
        ("two coordinates", run_of(factor, calls), [total]),
        ("the same calls in reverse", run_of(factor, calls[::-1]), [total]),
        ("steps of one and of three calls", run_of(0.5, [[2 * m]], [[m], [2 * m], [5 * m]]), [[m], [4 * m]]),
        ("a call that is not finite", run_of(0.5, [[m], [float("nan")]], [[m], [3 * m]]), ["skip", [2 * m]]),
        ("one call: cannot reveal the error", run_of(0.5, [[8 * m, -2 * m]]), [[4 * m, -m]]),
        ("factor one: cannot reveal the error", run_of(1, [[m], [2 * m], [4 * m]]), [[7 * m]]),
    ]
