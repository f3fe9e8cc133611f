"""The same rule under a limit of zero, with only the last shard filled, and infinity as a text."""

import math


def checks(n):
    m, empty = 1 + n % 97, [[] for _ in range(1 + n % 4)]
    return [
        ("nothing under a zero limit", (empty, 1, 0), {"norm": 0, "factor": 1}),
        ("only the last shard has values", ([*empty, [m, -m]], 1, 4 * m), {"norm": 2 * m, "factor": 1}),
        ("infinity as a text", ([*empty, [m, -2 * m]], "infinity", m), {"norm": 2 * m, "factor": 0.5}),
        ("zeros beside nothing", ([[0], *empty], 3, m), {"norm": 0, "factor": 1}),
        ("nothing in order inf", (empty, math.inf, 3 * m), {"norm": 0, "factor": 1}),
        ("order 2 beside nothing", ([[8 * m], *empty, [15 * m]], 2, 17 * m), {"norm": 17 * m, "factor": 1}),
    ]
