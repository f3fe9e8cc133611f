"""Parameters used by some ranks, in some micro-batches, by nobody, and by all."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def on_each(ranks, grads, norm, **more):
    return [{"grads": dict(grads), "norm": norm} | {k: dict(v) for k, v in more.items()} for _ in range(ranks)]


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 3
    turn = n % world
    one_rank = [{"a": [4 * m] if rank == turn else None} for rank in range(world)]
    shared = Fraction(4 * m, world)
    decay = {"decay": 0.1, "lr": 1, "weights": {"a": [10 * m]}}
    each_once = [[{"a": [m * (rank + 1)] if rank == k else None} for rank in range(world)] for k in range(world + 1)]
    return [
        (
            "used before the last pass only",
            (
                {
                    "micro_batches": [
                        [{"a": [2 * m], "b": [m]}, {"a": [6 * m], "b": None}],
                        [{"a": None, "b": [2 * m]}, {"a": None, "b": [3 * m]}],
                    ],
                },
            ),
            on_each(2, {"a": [4 * m], "b": [3 * m]}, 5 * m),
        ),
        (
            "used on one rank only",
            ({"micro_batches": [one_rank]},),
            on_each(world, {"a": [rounded(shared)]}, rounded(shared)),
        ),
        (
            "each rank uses it in a pass of its own, none in the last",
            ({"micro_batches": each_once},),
            on_each(world, {"a": [rounded(Fraction(m * (world + 1), 2))]}, rounded(Fraction(m * (world + 1), 2))),
        ),
        (
            "used nowhere, with decay",
            ({"micro_batches": [[{"a": None}] * world]} | decay,),
            on_each(world, {"a": None}, 0, weights={"a": [10 * m]}),
        ),
        (
            "one parameter used, one not, update with decay",
            (
                {
                    "micro_batches": [[{"a": [m], "b": None}, {"a": [3 * m], "b": None}]],
                    "decay": 0.5,
                    "lr": 0.5,
                    "weights": {"a": [8 * m], "b": [6 * m]},
                },
            ),
            on_each(2, {"a": [2 * m], "b": None}, 2 * m, weights={"a": [5 * m], "b": [6 * m]}),
        ),
        (
            "one rank only, update with decay",
            ({"micro_batches": [one_rank]} | decay,),
            on_each(world, {"a": [rounded(shared)]}, rounded(shared), weights={"a": [rounded(9 * m - shared)]}),
        ),
        (
            "last pass used it on one rank: cannot reveal the error",
            ({"micro_batches": [[{"a": [m]}, {"a": [m]}], [{"a": [2 * m]}, {"a": None}]]},),
            on_each(2, {"a": [2 * m]}, 2 * m),
        ),
        (
            "a used gradient that is zero: cannot reveal the error",
            ({"micro_batches": [[{"a": [0]}] * world]} | decay,),
            on_each(world, {"a": [0]}, 0, weights={"a": [9 * m]}),
        ),
        (
            "used by all in every pass: cannot reveal the error",
            ({"micro_batches": [[{"a": [3 * m, 4 * m]}] * world]},),
            on_each(world, {"a": [3 * m, 4 * m]}, 5 * m),
        ),
    ]
