"""Stages, experts and tensor slices that lie along an axis which the group at hand does not cover."""

from shardproof.failures.clipping import check, grid, line, piece, sharded, turned

PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def distinct(name, axis, *values):
    return [[piece(f"{name}{index}", each, {axis: "distinct"})] for index, each in enumerate(values)]


def checks(n):
    m = 1 + n % 97
    stages = distinct("stage", "pp", *turned([[3 * m, 0], [0, 4 * m]], n))
    three = distinct("stage", "pp", *turned([[2 * m], [m], [2 * m]], n))
    dense = piece("dense", [6 * m], {"ep": "replicate"})
    experts = [[dense, *held] for held in distinct("experts", "ep", *turned([[8 * m], [0]], n))]
    shared = piece("shared", [3 * m] * 4, {"ep": "replicate"})
    all_experts = [[shared, piece("experts0", [4 * m] * 4, {"ep": "distinct"})], [shared]]
    halves = [
        [piece("dense", [m], {"ep": "shard"}, start=r, mesh=["ep"]), *held]
        for r, held in enumerate(distinct("experts", "ep", [7 * m], [7 * m]))
    ]
    copies = {(d, p): [held | {"lies": {"dp": "replicate", "pp": "distinct"}} for held in stages[p]] for d, p in PAIRS}
    return [
        check("two stages", line("pp", stages, m), 25 * m * m),
        check("three stages, one under the limit", line("pp", three, 3 * m // 2), 9 * m * m),
        check(
            "a stage without parameters",
            line("pp", turned([[], *distinct("stage", "pp", [3 * m, 4 * m])], n), m),
            25 * m * m,
        ),
        check("experts differ, dense weights are copies", line("ep", experts, 5 * m), 100 * m * m),
        check("experts on one rank only", line("ep", turned(all_experts, n), 5 * m), 100 * m * m),
        check("dense weights know their cut, experts do not", line("ep", halves, m), 100 * m * m),
        check("one tensor in two slices", sharded("tp", turned([[3 * m], [4 * m]], n), m), 25 * m * m),
        check("the group covers copies, not stages", grid({"dp": 2, "pp": 2}, copies, 2 * m, ["dp"]), 25 * m * m),
        check("the group covers the stages: cannot reveal the error", line("pp", stages, m, ["pp"]), 25 * m * m),
    ]
