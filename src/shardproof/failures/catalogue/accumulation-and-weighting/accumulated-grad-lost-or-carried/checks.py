"""Fewer and more calls than configured, windows that are skipped, and steps that must not see each other."""

from fractions import Fraction

from shardproof.failures.exact import rounded

NAN = float("nan")


def run_of(every, factor, *windows):
    return ({"windows": list(windows), "every": every, "factor": factor},)


def scalars(*values):
    return [[value] for value in values]


def steps(m, n):
    """Two or three steps of one to four calls, in an engine that was configured for two to four."""
    lengths = [1 + (n + i) % 4 for i in range(2 + n % 2)]
    return [[[m * (1 + (i + j) % 3), j - n % 3] for j in range(length)] for i, length in enumerate(lengths)]


def checks(n):
    m = 1 + (n - 1) % 97
    windows, factor = steps(m, n), (0.5, 1, 0.25)[n % 3]
    sums = [[rounded(Fraction(factor) * sum(values)) for values in zip(*calls)] for calls in windows]
    return [
        ("mean of four calls", run_of(4, 0.25, scalars(2 * m, 4 * m, 6 * m, 8 * m)), [[5 * m]]),
        ("three calls where one is configured", run_of(1, 1, scalars(m, 2 * m, 3 * m)), [[6 * m]]),
        ("calls of both signs", run_of(1, 1, scalars(5 * m, -m, 2 * m)), [[6 * m]]),
        ("two coordinates", run_of(1, 1, [[m, m], [2 * m, 0]]), [[3 * m, m]]),
        ("steps before the configured count", run_of(3, 1, scalars(m), scalars(m), scalars(m)), [[m], [m], [m]]),
        (
            "a window with nan before a whole one",
            run_of(2, 0.5, scalars(m, NAN), scalars(2 * m, 4 * m)),
            ["skip", [3 * m]],
        ),
        ("steps of unlike length", run_of(2 + n % 3, factor, *windows), sums),
        ("one call for each step: cannot reveal the error", run_of(1, 1, scalars(m), scalars(4 * m)), [[m], [4 * m]]),
    ]
