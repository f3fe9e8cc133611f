"""The same rule on larger worlds with several ranks that have nothing."""

import math


def checks(n):
    m, world = 1 + n % 97, 4 + n % 5
    ranks = [[m] if rank % 2 == n % 2 else [] for rank in range(world)]
    count = sum(map(len, ranks))
    ended = {"ended": "returned", "collectives": [1] * world}
    return [
        ("every second rank, order 1", (ranks, 1), {**ended, "norms": [count * m] * world}),
        ("every second rank, order inf", (ranks, math.inf), {**ended, "norms": [m] * world}),
        (
            "the last rank only",
            ([*[[] for _ in range(world - 1)], [6 * m, 8 * m]], 2),
            {**ended, "norms": [10 * m] * world},
        ),
        ("nothing in order inf", ([[] for _ in range(world)], math.inf), {**ended, "norms": [0] * world}),
        ("one rank without gradients", ([[]], 2), {"ended": "returned", "norms": [0], "collectives": [1]}),
    ]
