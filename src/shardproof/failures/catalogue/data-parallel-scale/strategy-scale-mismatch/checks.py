"""One batch on the plain path, in a pipeline and in an engine that returns sums."""

from shardproof.failures.exact import scaled


def run_of(*ranks, averages, **more):
    held = [[{"sum": list(values), "tokens": tokens} for values, tokens in rank] for rank in ranks]
    return ({"ranks": held, "loss": "tokens", "wrapper": "fsdp", "averages": averages, "path": "plain"} | more,)


def checks(n):
    m = 1 + n % 31
    world = 2 + n % 3
    turn = n % 2
    sums = [[([48 * m, -64 * m], 16)]]
    two = [[([12 * m], 6)], [([24 * m], 12)]]
    two = two[turn:] + two[:turn]
    ones = [[([15 * m * (rank + 1), 20 * m * (rank + 1)], 5 * (rank + 1))] for rank in range(world)]
    whole = {"grad": [3 * m, -4 * m], "norm": 5 * m}
    return [
        ("summed loss in a pipeline", run_of(*sums, averages={}, path="pipeline"), whole),
        ("same batch on the plain path: cannot reveal the error", run_of(*sums, averages={}), whole),
        (
            "two ranks, token sums averaged",
            run_of(*two, averages={"dp": 2}, path="engine"),
            {"grad": [2 * m], "norm": 2 * m},
        ),
        (
            "clipped in a pipeline",
            run_of(*sums, averages={}, path="pipeline", limit=m),
            {"grad": scaled([3 * m, -4 * m], 1, 5), "norm": 5 * m},
        ),
        (
            "below the limit, clipped by the sum",
            run_of(*ones, averages={"dp": world}, path="pipeline", limit=6 * m),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
        (
            "micro-batches of a pipeline",
            run_of([([16 * m, 0], 8), ([8 * m, 24 * m], 4), ([12 * m, 24 * m], 0)], averages={}, path="pipeline"),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
        (
            "local means in a pipeline",
            run_of(
                [([2 * m], 1), ([8 * m], 2)],
                [([3 * m], 1), ([9 * m], 3)],
                averages={"dp": 2},
                loss="means",
                path="pipeline",
            ),
            {"grad": [3 * m], "norm": 3 * m},
        ),
        (
            "one token: cannot reveal the error",
            run_of([([3 * m, -4 * m], 1)], averages={"dp": 1}, path="pipeline"),
            whole,
        ),
    ]
