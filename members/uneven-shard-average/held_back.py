"""The same rule on other cuts, with infinite padding and with nothing but padding."""

import math
from fractions import Fraction

from shardproof.failures.exact import root, rounded


def checks(n):
    m, world = 1 + n % 97, 3 + n % 4
    shards = [[m * (rank + 1)] * (rank + 1) for rank in range(world)]
    total = sum(m * (rank + 1) ** 2 for rank in range(world))
    count = world * (world + 1) // 2
    return [
        ("shards that grow", (shards, [rank + 1 for rank in range(world)], "mean"), rounded(Fraction(total, count))),
        ("infinite padding", ([[m, math.inf], [m]], [1, 1], "norm"), root(2 * m * m)),
        ("nan padding in a mean", ([[m, math.nan], [3 * m]], [1, 1], "mean"), 2 * m),
        ("nothing but padding", ([[m], [m]], [0, 0], "mean"), 0),
        ("no shards", ([], [], "norm"), 0),
    ]
