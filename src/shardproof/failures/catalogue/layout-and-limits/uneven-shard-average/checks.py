"""Uneven cuts, empty shards, padding of zeros and stale padding; means and norms."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def cut(values, *at):
    return [values[low:high] for low, high in zip([0, *at], [*at, len(values)])]


def unpadded(shards, result, expected):
    return ((shards, [len(shard) for shard in shards], result), expected)


def checks(n):
    m, at = 1 + n % 97, 8 + n % 3
    line = [m * each for each in range(12)]
    five = [m, 2 * m, 4 * m, 8 * m, 16 * m]
    stale = 9 * m + n % 5
    padded, zeros = [[3 * m], [4 * m, 0, stale]], [[2 * m, 4 * m, 0, 0]]
    both = [[2 * m, 4 * m], [6 * m, stale]]
    return [
        ("eight rows or more beside fewer", *unpadded(cut(line, at), "mean", rounded(Fraction(11 * m, 2)))),
        ("an empty shard", *unpadded([[m, 3 * m], []][:: 1 if n % 2 else -1], "mean", 2 * m)),
        ("means of the backward pass", *unpadded([[m, m, m], [5 * m]], "mean", 2 * m)),
        ("five entries over four ranks", *unpadded(cut(five, 2, 4, 5), "mean", rounded(Fraction(31 * m, 5)))),
        ("norm with stale padding", (padded, [1, 1], "norm"), 5 * m),
        ("mean with padding of zeros", (zeros, [2], "mean"), 3 * m),
        ("mean with stale padding", (both, [2, 1], "mean"), 4 * m),
        ("even shards: cannot reveal the error", *unpadded(cut(line, 6), "mean", rounded(Fraction(11 * m, 2)))),
        ("norm of uneven shards: cannot reveal the error", *unpadded([[3 * m], [], [4 * m, 0]], "norm", 5 * m)),
    ]
