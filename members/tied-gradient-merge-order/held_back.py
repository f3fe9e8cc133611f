"""The same rule with three copies, a silent copy, cancelling copies and other offsets."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 4
    three = [{"grads": [[k * m * (rank + 1)] for rank in range(world)], "offset": k % world} for k in (1, 2, 4)]
    total = rounded(Fraction(7 * m * (world + 1), 2))
    silent = [{"grads": [[2 * m], [4 * m]], "offset": 1}, {"grads": [[0], [0]], "offset": 0}]
    cancel = [{"grads": [[m], [3 * m]], "offset": 0}, {"grads": [[-3 * m], [-m]], "offset": n % 2}]
    apart = [{"grads": [[m], [m]], "offset": 0}, {"grads": [[-m], [-m]], "offset": 1}]
    wide = [
        {"grads": [[m, 0, 2 * m, 0], [0, m, 0, 2 * m]], "offset": n % 3},
        {"grads": [[0, 3 * m, 0, 4 * m], [3 * m, 0, 4 * m, 0]], "offset": 2 - n % 3},
    ]
    return [
        (
            "three copies",
            ({"tied": True, "shard": 1, "copies": three},),
            [[[total] for _ in range(world)] for _ in range(3)],
        ),
        ("a copy without gradient", ({"tied": True, "shard": 1, "copies": silent},), [[[3 * m], [3 * m]]] * 2),
        (
            "copies cancel",
            ({"tied": True, "shard": 1, "copies": cancel, "lr": 0.1, "optimizer": "adam"},),
            {"updates": [[0], [0]], "saved": [0]},
        ),
        (
            "not tied, first step of adam",
            ({"tied": False, "shard": 1, "copies": apart, "lr": 0.1, "optimizer": "adam"},),
            {"updates": [[-0.1], [0.1]], "saved": [-0.1]},
        ),
        (
            "a table over three slices",
            ({"tied": True, "shard": 3, "copies": wide, "lr": 1, "optimizer": "sgd"},),
            {"updates": [[-2 * m, -2 * m, -3 * m, -3 * m]] * 2, "saved": [-2 * m, -2 * m, -3 * m, -3 * m]},
        ),
    ]
