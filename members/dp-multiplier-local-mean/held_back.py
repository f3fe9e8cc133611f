"""The same rule with two axes, a wrapper that sums, unequal accumulation, and a limit that does bite."""

from shardproof.failures.exact import scaled


def run_of(*ranks, averages, **more):
    held = [[{"sum": list(values), "tokens": tokens} for values, tokens in rank] for rank in ranks]
    return ({"ranks": held, "loss": "tokens", "wrapper": "fsdp", "averages": averages, "path": "plain"} | more,)


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 4
    means = [[([6 * m, 8 * m], 2), ([9 * m, 12 * m], 3)] for _ in range(world)]
    unequal = [[([2 * m], 1)], [([4 * m], 1), ([12 * m], 2), ([2 * m], 1)]]
    return [
        (
            "replicate two by shard two",
            run_of(*[[([k * m], k)] for k in (1, 2, 3, 4)], averages={"replicate": 2, "shard": 2}, loss="means"),
            {"grad": [m], "norm": m},
        ),
        (
            "a wrapper that sums local means",
            run_of([([m], 1)], [([6 * m], 2)], averages={}, loss="means"),
            {"grad": [2 * m], "norm": 2 * m},
        ),
        (
            "a wrapper that sums, global count",
            run_of([([m], 1)], [([8 * m], 2)], averages={}),
            {"grad": [3 * m], "norm": 3 * m},
        ),
        (
            "unequal accumulation",
            run_of(*(unequal[::-1] if n % 2 else unequal), averages={"dp": 2}, loss="means"),
            {"grad": [3 * m], "norm": 3 * m},
        ),
        (
            "a limit that bites",
            run_of(*means, averages={"dp": world}, loss="means", limit=m),
            {"grad": scaled([3 * m, 4 * m], 1, 5), "norm": 5 * m},
        ),
    ]
