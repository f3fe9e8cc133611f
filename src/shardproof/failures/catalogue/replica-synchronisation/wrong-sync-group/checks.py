"""Copies inside and outside the data group, summands, parameters that differ, and late ones."""

from fractions import Fraction

from shardproof.failures.exact import rounded, scaled


def run_of(groups, parameters, rows, **more):
    (name,) = parameters
    return ({"groups": groups, "parameters": parameters, "chunks": [[{name: list(row)} for row in rows]]} | more,)


def on_each(ranks, name, values):
    return [{name: list(values)} for _ in range(ranks)]


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 3
    turn = n % 4
    alone = [[rank] for rank in range(4)]
    slices = [[m, 0], [0, m], [2 * m, 0], [0, 2 * m]]
    slices = slices[turn:] + slices[:turn]
    everyone = list(range(world))
    rows = [[(rank + 1) * m, -m] for rank in everyone]
    mean = scaled([world * (world + 1) // 2 * m, -world * m], 1, world)
    grid = {"dp": [[0, 1], [2, 3]], "ep": [[0, 2], [1, 3]]}
    experts = [[m], [3 * m], [10 * m], [20 * m]]
    quarters = {"dp": [[0, 2], [1, 3]], "cp": [[0, 1], [2, 3]]}
    return [
        (
            "data size one, four sequence ranks",
            run_of({"dp": alone, "cp": [[0, 1, 2, 3]]}, {"w": {"over": {"dp": "mean", "cp": "mean"}}}, slices),
            on_each(4, "w", scaled([3 * m, 3 * m], 1, 4)),
        ),
        (
            "four data ranks with the same slices: cannot reveal the error",
            run_of({"dp": [[0, 1, 2, 3]]}, {"w": {"over": {"dp": "mean"}}}, slices),
            on_each(4, "w", scaled([3 * m, 3 * m], 1, 4)),
        ),
        (
            "adapter added after wrapping, update with lr",
            run_of({"dp": [[0, 1]]}, {"lora": {"over": {"dp": "mean"}, "late": True}}, [[2 * m], [6 * m]], lr=0.1),
            on_each(2, "lora", [rounded(Fraction(-4 * m, 10))]),
        ),
        (
            "data and sequence axis",
            run_of(quarters, {"w": {"over": {"dp": "mean", "cp": "mean"}}}, slices),
            on_each(4, "w", scaled([3 * m, 3 * m], 1, 4)),
        ),
        (
            "disjoint summands over the tensor axis",
            run_of({"tp": [[1, 0]]}, {"w": {"over": {"tp": "sum"}}}, [[m], [4 * m]]),
            on_each(2, "w", [5 * m]),
        ),
        (
            "experts differ over their axis",
            run_of(grid, {"expert": {"over": {"dp": "mean", "ep": "split"}}}, experts),
            on_each(2, "expert", [2 * m]) + on_each(2, "expert", [15 * m]),
        ),
        (
            "late in a run of data ranks only",
            run_of({"dp": [everyone]}, {"lora": {"over": {"dp": "mean"}, "late": True}}, rows),
            on_each(world, "lora", mean),
        ),
        (
            "an axis without a rule is refused",
            run_of({"dp": [[0, 1]], "cp": [[0], [1]]}, {"w": {"over": {"dp": "mean"}}}, [[m], [m]]),
            {"raises": "ValueError"},
        ),
        (
            "equal copies: cannot reveal the error",
            run_of(
                {"dp": alone[:3], "cp": [[2, 0, 1]]}, {"w": {"over": {"dp": "mean", "cp": "complete"}}}, [[3 * m]] * 3
            ),
            on_each(3, "w", [3 * m]),
        ),
    ]
