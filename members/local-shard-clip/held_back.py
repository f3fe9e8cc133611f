"""The same rule on other cuts: more ranks, empty ranks between full ones, a norm that is no integer."""

from fractions import Fraction

from shardproof.failures.exact import root, scaled


def cut(values, at):
    return [values[low:high] for low, high in zip([0, *at], [*at, len(values)], strict=True)]


def checks(n):
    m = 1 + n % 97
    values = [2 * m, 4 * m, 5 * m, 6 * m]  # norm 9m
    turned = values[n % 4 :] + values[: n % 4]
    at = [1, 1 + n % 3, 3]
    below = [m, 2 * m, 2 * m]  # norm 3m
    return [
        ("four values over four ranks", (cut(turned, at), 3 * m), cut(scaled(turned, 1, 3), at)),
        ("equal to the limit remains unchanged", (cut(below, [1, 1 + n % 3]), 3 * m), cut(below, [1, 1 + n % 3])),
        ("signs are kept", ([[-3 * m], [], [4 * m]], m), [scaled([-3 * m], 1, 5), [], scaled([4 * m], 1, 5)]),
        ("a norm that is no integer", ([[m], [m]], m), [[root(Fraction(m * m, 2))], [root(Fraction(m * m, 2))]]),
        ("fractions", ([[1.5 * m], [2.0 * m]], 1), [[0.6], [0.8]]),
        ("all ranks empty", ([[] for _ in range(2 + n % 3)], m), [[] for _ in range(2 + n % 3)]),
    ]
