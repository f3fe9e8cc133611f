"""Replicated parameters whose inputs are cut over the tensor axis."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def on_one_axis(axis, rule, *chunks, **more):
    ranks = list(range(len(chunks[0])))
    chunks = [[{"norm.weight": values} for values in chunk] for chunk in chunks]
    return (
        {"groups": {axis: [ranks]}, "parameters": {"norm.weight": {"over": {axis: rule}}}, "chunks": chunks} | more,
    )


def on_each(ranks, values):
    return [{"norm.weight": list(values)} for _ in range(ranks)]


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 3
    turn = n % world
    one_slice = [[5 * m] if rank == turn else [0] for rank in range(world)]
    slices = [[m * (1 + (rank + turn) % world)] for rank in range(world)]
    slices_total = m * world * (world + 1) // 2
    first = [[m] for _ in range(world)]
    second = [[2 * m * (rank == turn)] for rank in range(world)]
    pairs = [[3 * m, -2 * m], [m, 2 * m]]
    grid = (
        {"dp": [[0, 1], [2, 3]], "tp": [[0, 2], [1, 3]]} if n % 2 else {"dp": [[0, 2], [1, 3]], "tp": [[0, 1], [2, 3]]}
    )
    return [
        (
            "two slices of the sequence",
            on_one_axis("tp", "sum", pairs[n % 2 :] + pairs[: n % 2]),
            on_each(2, [4 * m, 0]),
        ),
        (
            "a mean of the slices is too small",
            on_one_axis("tp", "sum", [[2 * m, 0], [4 * m, 6 * m]]),
            on_each(2, [6 * m] * 2),
        ),
        (
            "one rank has it all, update with lr",
            on_one_axis("tp", "sum", one_slice, lr=0.1),
            on_each(world, [rounded(Fraction(-5 * m, 10))]),
        ),
        ("one slice on each rank", on_one_axis("cp", "sum", slices), on_each(world, [slices_total])),
        ("two chunks, summed once", on_one_axis("tp", "sum", first, second), on_each(world, [m * world + 2 * m])),
        (
            "clipped after the sum",
            on_one_axis("tp", "sum", [[m, 2 * m], [3 * m, -2 * m]], limit=2 * m),
            on_each(2, [2 * m, 0]),
        ),
        (
            "slices inside, data outside",
            (
                {
                    "groups": grid,
                    "parameters": {"norm.weight": {"over": {"dp": "mean", "tp": "sum"}}},
                    "chunks": [[{"norm.weight": [k * m]} for k in (1, 2, 4, 9)]],
                },
            ),
            on_each(4, [8 * m]),
        ),
        ("single rank: cannot reveal the error", on_one_axis("tp", "sum", [[m, 2 * m]]), on_each(1, [m, 2 * m])),
        (
            "already complete: cannot reveal the error",
            on_one_axis("tp", "complete", [[m, -m]] * world),
            on_each(world, [m, -m]),
        ),
    ]
