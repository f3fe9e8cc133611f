"""The same rule with longer windows, more ranks, wide parameters and a single rank."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def on_each(ranks, grads, norm, **more):
    return [{"grads": dict(grads), "norm": norm} | {k: dict(v) for k, v in more.items()} for _ in range(ranks)]


def checks(n):
    m = 1 + n % 89
    world = 3 + n % 2
    turn = n % 3
    passes = [
        [{"a": [3 * m * world, 0] if k == turn and rank == k else None} for rank in range(world)] for k in range(3)
    ]
    three = [
        [{"a": [4 * m], "b": None, "c": None} for _ in range(world)],
        [{"a": None, "b": [3 * m * world] if rank == turn else None, "c": None} for rank in range(world)],
    ]
    weights = {"a": [4 * m], "b": [3 * m], "c": [9 * m]}
    return [
        (
            "one rank in one of three passes",
            ({"micro_batches": passes},),
            on_each(world, {"a": [3 * m, 0]}, 3 * m),
        ),
        (
            "three kinds of use",
            ({"micro_batches": three, "weights": weights, "decay": 1, "lr": 0.5},),
            on_each(world, {"a": [4 * m], "b": [3 * m], "c": None}, 5 * m, weights={"a": [0], "b": [0], "c": [9 * m]}),
        ),
        (
            "single rank, used nowhere",
            ({"micro_batches": [[{"a": None}], [{"a": None}]], "weights": {"a": [m]}, "decay": 0.5, "lr": 1},),
            on_each(1, {"a": None}, 0, weights={"a": [m]}),
        ),
        (
            "uses that cancel are still uses",
            (
                {
                    "micro_batches": [[{"a": [m]}, {"a": None}], [{"a": None}, {"a": [-m]}]],
                    "weights": {"a": [2 * m]},
                    "decay": 0.25,
                    "lr": 1,
                },
            ),
            on_each(2, {"a": [0]}, 0, weights={"a": [rounded(Fraction(3 * m, 2))]}),
        ),
    ]
