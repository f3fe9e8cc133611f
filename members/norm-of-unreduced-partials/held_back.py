"""The same rule over more ranks and longer summands."""

from fractions import Fraction

from shardproof.failures.number_formats import significant


def checks(n):
    m, world = 1 + n % 97, 3 + n % 4
    spread = [[m if place == rank else 0 for place in range(4)] for rank in range(4)]
    equal = [[2 * m, -m, 2 * m] for _ in range(world)]
    undone = [[m, m], [-m, -m], [6 * m, 8 * m]]
    return [
        (
            "one element from each rank, all equal",
            (spread, m),
            {"norm": 2 * m, "values": [significant(Fraction(m, 2))] * 4},
        ),
        (
            "equal summands under the limit",
            (equal, 3 * m * world),
            {"norm": 3 * m * world, "values": [2 * m * world, -m * world, 2 * m * world]},
        ),
        ("two summands undo each other", (undone, 5 * m), {"norm": 10 * m, "values": [3 * m, 4 * m]}),
        ("no elements", ([[] for _ in range(world)], m), {"norm": 0, "values": []}),
        ("zero limit", (undone, 0), {"norm": 10 * m, "values": [0, 0]}),
    ]
