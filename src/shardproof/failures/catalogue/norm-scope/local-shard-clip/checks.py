"""The seven checks of the published page, for every n."""

from shardproof.failures.exact import scaled


def checks(n):
    return [
        (
            "norm spans two shards",
            ([[3 * n, 0], [0, 4 * n]], 2 * n),
            [[*scaled([3 * n], 2, 5), 0], [0, *scaled([4 * n], 2, 5)]],
        ),
        ("uneven shard widths", ([[3 * n], [4 * n, 0]], 2 * n), [scaled([3 * n], 2, 5), [*scaled([4 * n], 2, 5), 0]]),
        ("below limit remains unchanged", ([[n], [n]], 2 * n), [[n], [n]]),
        ("single shard same global rule", ([[3 * n, 4 * n]], 3 * n), [scaled([3 * n, 4 * n], 3, 5)]),
        ("zero norm", ([[0, 0], []], n), [[0, 0], []]),
        ("zero limit", ([[n]], 0), [[0]]),
        ("empty shards", ([], n), []),
    ]
