"""The same rule with several micro-batches, three axes, a limit under two axes, and larger worlds."""

from shardproof.failures.exact import scaled


def run_of(*ranks, averages, **more):
    held = [[{"sum": list(values), "tokens": tokens} for values, tokens in rank] for rank in ranks]
    return ({"ranks": held, "loss": "tokens", "wrapper": "fsdp", "averages": averages, "path": "plain"} | more,)


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 5
    many = [[([3 * m, 0], 1), ([0, 4 * m], 1 + rank % 2)] for rank in range(world)]
    tokens = 2 * world + world // 2
    eight = [[([6 * m, -8 * m], 2)] for _ in range(8)]
    return [
        (
            "two micro-batches on each rank",
            run_of(*many, averages={"dp": world}, wrapper="engine"),
            {
                "grad": scaled([3 * m * world, 4 * m * world], 1, tokens),
                "norm": scaled([5 * m * world], 1, tokens)[0],
            },
        ),
        (
            "three axes",
            run_of(*eight, averages={"replicate": 2, "shard": 2, "cp": 2}),
            {"grad": [3 * m, -4 * m], "norm": 5 * m},
        ),
        (
            "an axis that is summed and one that is averaged",
            run_of(*eight, averages={"shard": 4}),
            {"grad": [3 * m, -4 * m], "norm": 5 * m},
        ),
        (
            "a limit under two axes",
            run_of(*eight, averages={"replicate": 2, "shard": 4}, limit=2 * m, wrapper="fsdp"),
            {"grad": scaled([3 * m, -4 * m], 2, 5), "norm": 5 * m},
        ),
        (
            "local means with two micro-batches",
            run_of([([m], 1), ([6 * m], 2)], [([8 * m], 4), ([2 * m], 1)], averages={"dp": 2}, loss="means"),
            {"grad": [2 * m], "norm": 2 * m},
        ),
    ]
