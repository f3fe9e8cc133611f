"""Global token counts under wrappers that average, on one mesh axis and on two."""

from fractions import Fraction

from shardproof.failures.exact import rounded, scaled


def run_of(*ranks, averages, **more):
    held = [[{"sum": list(values), "tokens": tokens} for values, tokens in rank] for rank in ranks]
    return ({"ranks": held, "loss": "tokens", "wrapper": "fsdp", "averages": averages, "path": "plain"} | more,)


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 3
    turn = n % 4
    four = [[([4 * m], 2)], [([8 * m], 4)], [([0], 0)], [([4 * m], 2)]]
    four = four[turn:] + four[:turn]
    even = [[([6 * m * (rank + 1), 8 * m * (rank + 1)], rank + 1)] for rank in range(world)]
    corners = [[([12 * m, 0], 1)], [([0, 16 * m], 3)], [([6 * m, 8 * m], 2)], [([6 * m, 8 * m], 2)]]
    mean = Fraction(m * (world + 1), 2)
    local = [[([3 * m * (rank + 1) * 2, 4 * m * (rank + 1) * 2], 2)] for rank in range(world)]
    return [
        (
            "two ranks, four tokens",
            run_of([([6 * m, 0], 1)], [([0, 8 * m], 3)], averages={"dp": 2}, wrapper="ddp"),
            {"grad": scaled([3 * m, 4 * m], 1, 2), "norm": rounded(Fraction(5 * m, 2))},
        ),
        ("a rank without tokens", run_of(*four, averages={"dp": 4}), {"grad": [2 * m], "norm": 2 * m}),
        (
            "clipping hides behind the factor",
            run_of(*even, averages={"dp": world}, wrapper="engine", limit=5 * m),
            {"grad": [3 * m, 4 * m], "norm": 10 * m},
        ),
        (
            "replicate two by shard two",
            run_of(*corners, averages={"replicate": 2, "shard": 2}),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
        (
            "replicate four by shard one",
            run_of(*corners, averages={"replicate": 4, "shard": 1}),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
        (
            "four ranks of plain data parallelism",
            run_of(*corners, averages={"dp": 4}, wrapper="ddp"),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
        (
            "a wrapper that sums: cannot reveal the error",
            run_of(*corners, averages={}, wrapper="ddp"),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
        (
            "single rank: cannot reveal the error",
            run_of([([6 * m, 8 * m], 2)], averages={"dp": 1}),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
        (
            "local means under an average: cannot reveal the error",
            run_of(*local, averages={"dp": world}, loss="means"),
            {"grad": scaled([3 * m, 4 * m], world + 1, 2), "norm": rounded(5 * mean)},
        ),
    ]
