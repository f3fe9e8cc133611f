"""Local means and global counts, with and without accumulation, under a wrapper that averages."""

from fractions import Fraction

from shardproof.failures.exact import rounded, scaled


def run_of(*ranks, averages, **more):
    held = [[{"sum": list(values), "tokens": tokens} for values, tokens in rank] for rank in ranks]
    return ({"ranks": held, "loss": "tokens", "wrapper": "fsdp", "averages": averages, "path": "plain"} | more,)


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 3
    turn = n % 4
    two_each = [[([m], 1), ([3 * m], 1)], [([2 * m], 1)] * 2, [([0], 1), ([4 * m], 1)], [([m], 1), ([3 * m], 1)]]
    two_each = two_each[turn:] + two_each[:turn]
    means = [[([3 * m * (rank + 1), 4 * m * (rank + 1)], 1)] for rank in range(world)]
    halves = [[([m], 2)] for _ in range(8)]
    half = Fraction(m, 2)
    uneven = [[([2 * m], 1)], [([9 * m], 3)]]
    return [
        (
            "four ranks, two micro-batches",
            run_of(*two_each, averages={"dp": 4}, loss="means"),
            {"grad": [2 * m], "norm": 2 * m},
        ),
        (
            "two ranks, one micro-batch",
            run_of([([m], 1)], [([3 * m], 1)], averages={"dp": 2}, loss="means", wrapper="ddp"),
            {"grad": [2 * m], "norm": 2 * m},
        ),
        (
            "one mean on each rank",
            run_of(*means, averages={"dp": world}, loss="means"),
            {"grad": scaled([3 * m, 4 * m], world + 1, 2), "norm": rounded(Fraction(5 * m * (world + 1), 2))},
        ),
        (
            "eight equal ranks",
            run_of(*halves, averages={"dp": 8}, loss="means"),
            {"grad": [rounded(half)], "norm": rounded(half)},
        ),
        (
            "uneven counts, local means",
            run_of(*uneven, averages={"dp": 2}, loss="means"),
            {"grad": [rounded(5 * half)], "norm": rounded(5 * half)},
        ),
        (
            "below the limit, clipped by the multiplier",
            run_of(*means, averages={"dp": world}, loss="means", limit=5 * m * (world + 1)),
            {"grad": scaled([3 * m, 4 * m], world + 1, 2), "norm": rounded(Fraction(5 * m * (world + 1), 2))},
        ),
        (
            "single rank, two micro-batches",
            run_of([([2 * m], 2), ([3 * m], 1)], averages={"dp": 1}, loss="means"),
            {"grad": [2 * m], "norm": 2 * m},
        ),
        (
            "uneven counts, one global count: cannot reveal the error",
            run_of(*uneven, averages={"dp": 2}),
            {"grad": [rounded(Fraction(11 * m, 4))], "norm": rounded(Fraction(11 * m, 4))},
        ),
        (
            "single rank, one micro-batch: cannot reveal the error",
            run_of([([6 * m, 8 * m], 2)], averages={"dp": 1}, loss="means"),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
    ]
