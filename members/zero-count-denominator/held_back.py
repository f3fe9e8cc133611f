"""The same rule over more ranks, with sums that cancel, and nothing at all."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def checks(n):
    m, world = 1 + n % 97, 3 + n % 5
    tokens = [rank % 3 * (1 + n % 4) for rank in range(world)]
    sums = [count * (m + rank) for rank, count in enumerate(tokens)]
    return [
        (
            "every third rank has no tokens",
            (sums, tokens),
            {"mean": rounded(Fraction(sum(sums), sum(tokens))), "tokens": sum(tokens)},
        ),
        ("sums that cancel beside no tokens", ([m, 0, -m], [1, 0, 2]), {"mean": 0, "tokens": 3}),
        ("a negative sum over no tokens", ([0, -m], [1, 0]), {"raises": "ValueError"}),
        ("no ranks", ([], []), {"mean": 0, "tokens": 0}),
        ("one rank has all tokens", ([*[0] * world, 10 * m], [*[0] * world, 4]), {"mean": 2.5 * m, "tokens": 4}),
    ]
