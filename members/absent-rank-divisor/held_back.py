"""The same rules on other worlds, with ranks that are there and have no tokens."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def checks(n):
    m, world = 1 + n % 97, 5 + n % 4
    some = [{"gradient": [m, 3 * m], "tokens": 2} if rank % 2 else None for rank in range(world)]
    there = sum(rank is not None for rank in some)
    empty = [{"gradient": [0], "tokens": 0}, None]
    return [
        ("every second rank, present", (some, "present"), [m, 3 * m]),
        ("every second rank, initial", (some, "initial"), [rounded(Fraction(k * m * there, world)) for k in (1, 3)]),
        ("every second rank, tokens", (some, "tokens"), [rounded(Fraction(k * m, 2)) for k in (1, 3)]),
        ("no tokens at all", (empty, "tokens"), None),
        ("nobody, initial", ([None] * world, "initial"), None),
    ]
