"""The same rule with pipelines inside data parallelism, two axes, an engine that sums, and local means."""

from shardproof.failures.exact import scaled


def run_of(*ranks, averages, **more):
    held = [[{"sum": list(values), "tokens": tokens} for values, tokens in rank] for rank in ranks]
    return ({"ranks": held, "loss": "tokens", "wrapper": "fsdp", "averages": averages, "path": "plain"} | more,)


def checks(n):
    m = 1 + n % 31
    world = 2 + n % 4
    spread = [[([9 * m * (k + 1), 12 * m * (k + 1)], 3 * (k + 1))] for k in range(world)]
    four = [[([6 * m * k, 8 * m * k], 2 * k)] for k in (1, 4, 2, 3)]
    expected = {"grad": [3 * m, 4 * m], "norm": 5 * m}
    return [
        ("pipelines under data parallelism", run_of(*spread, averages={"dp": world}, path="pipeline"), expected),
        ("an engine that sums", run_of(*spread, averages={}, path="engine", wrapper="engine"), expected),
        (
            "replicate two by shard two, clipped",
            run_of(*four, averages={"replicate": 2, "shard": 2}, path="engine", limit=2 * m),
            {"grad": scaled([3 * m, 4 * m], 2, 5), "norm": 5 * m},
        ),
        ("plain path under two axes", run_of(*four, averages={"replicate": 2, "shard": 2}), expected),
        (
            "local means of unequal batches in an engine",
            run_of([([6 * m, 8 * m], 2)], [([9 * m, 12 * m], 3)], averages={"dp": 2}, loss="means", path="engine"),
            expected,
        ),
    ]
