"""Gradients that are complete, in part or as a whole, and gradients that come in chunks."""

from fractions import Fraction

from shardproof.failures.exact import rounded, scaled


def on_one_axis(over, *chunks, **more):
    ((axis, rule),) = over.items()
    parameter = {"over": {axis: rule}}
    if "bypass" in more:
        parameter["bypass"] = {axis: more.pop("bypass")}
    ranks = list(range(len(chunks[0])))
    chunks = [[{"proj.weight": list(values)} for values in chunk] for chunk in chunks]
    return ({"groups": {axis: [ranks]}, "parameters": {"proj.weight": parameter}, "chunks": chunks} | more,)


def on_each(ranks, values):
    return [{"proj.weight": list(values)} for _ in range(ranks)]


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 3
    turn = n % world
    whole = [3 * m, -m]
    bypassing = [[m * (1 + (rank + turn) % world)] for rank in range(world)]
    bypassing_total = m * world * (world + 1) // 2
    first, second = [[m], [3 * m]], [[2 * m], [2 * m]]
    rows = [[5 * m, *own, 2 * m] for own in bypassing]
    return [
        (
            "one row complete, one bypassing",
            on_one_axis({"tp": "complete"}, [[4 * m, m], [4 * m, 2 * m]], bypass=[1]),
            on_each(2, [4 * m, 3 * m]),
        ),
        ("complete on every rank", on_one_axis({"tp": "complete"}, [whole] * world), on_each(world, whole)),
        (
            "bypassing row between complete ones",
            on_one_axis({"tp": "complete"}, rows, bypass=[1]),
            on_each(world, [5 * m, bypassing_total, 2 * m]),
        ),
        ("two chunks, summed once", on_one_axis({"dp": "sum"}, first, second), on_each(2, [8 * m])),
        (
            "two complete chunks, update with lr",
            on_one_axis({"tp": "complete"}, [[m]] * 2, [[3 * m]] * 2, lr=0.5),
            on_each(2, [-2 * m]),
        ),
        (
            "clipped by the norm of complete rows",
            on_one_axis({"tp": "complete"}, [[4 * m, m], [4 * m, 2 * m]], bypass=[1], limit=2.5 * m),
            on_each(2, scaled([4 * m, 3 * m], 1, 2)),
        ),
        (
            "two chunks averaged: cannot reveal the error",
            on_one_axis({"dp": "mean"}, first, second),
            on_each(2, [4 * m]),
        ),
        (
            "one chunk of summands: cannot reveal the error",
            on_one_axis({"tp": "sum"}, bypassing, lr=0.1),
            on_each(world, [rounded(Fraction(-bypassing_total, 10))]),
        ),
        ("single rank: cannot reveal the error", on_one_axis({"tp": "complete"}, [whole]), on_each(1, whole)),
    ]
