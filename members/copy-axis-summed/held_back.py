"""The same rule with more replicas and slices, and with a limit that only a wrong norm exceeds."""

from shardproof.failures.clipping import check, cut, grid, line, piece, turned


def checks(n):
    m = 1 + n % 97
    replicas = 2 + n % 4
    rows = cut("weight", turned([[2 * m], [m, -m], [3 * m, 7 * m]], n), "shard")
    held = {
        (r, s): [row | {"lies": {"replica": "replicate", "shard": "shard"}}]
        for s, row in enumerate(rows)
        for r in range(replicas)
    }
    axes = {"replica": replicas, "shard": 3}
    copies = [[piece("weight", [m, 2 * m, 2 * m], {"dp": "replicate"})] for _ in range(replicas)]
    return [
        check("three slices, several replicas", grid(axes, held, 4 * m, ["replica"]), 64 * m * m),
        check("under the limit when summed once", grid(axes, held, 9 * m, ["replica", "shard"]), 64 * m * m),
        check("copies above the limit", line("dp", copies, m, ["dp"]), 9 * m * m),
        check(
            "zero gradients: cannot reveal the error", line("dp", [[piece("w", [0], {"dp": "replicate"})]] * 2, n), 0
        ),
    ]
