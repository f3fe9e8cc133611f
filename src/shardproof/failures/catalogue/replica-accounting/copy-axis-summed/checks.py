"""Axes that hold copies only, axes that cut, and groups over one of them or both."""

from shardproof.failures.clipping import check, cut, grid, line, piece, sharded, turned


def hybrid(replicas, slices, limit, group):
    rows = cut("weight", slices, "shard", mesh=["shard"])
    held = {
        (r, s): [row | {"lies": {"replica": "replicate", "shard": "shard"}}]
        for r in range(replicas)
        for s, row in enumerate(rows)
    }
    return grid({"replica": replicas, "shard": len(slices)}, held, limit, group)


def checks(n):
    m = 1 + n % 97
    world = 2 + n % 3
    slices = turned([[3 * m], [4 * m]], n)
    copies = [[piece("weight", [3 * m, 4 * m], {"dp": "replicate"})] for _ in range(4)]
    mixed = [[weight, piece("bias", [12 * m], {"dp": "replicate"})] for weight in cut("weight", slices, "dp")]
    return [
        check("replicas of a sharded model", hybrid(world, slices, 2 * m, ["replica"]), 25 * m * m),
        check("group over replicas and shards", hybrid(2, slices, 2 * m, ["replica", "shard"]), 25 * m * m),
        check("no sharding, full gradient everywhere, at the limit", line("dp", copies, 5 * m, ["dp"]), 25 * m * m),
        check("a complete sum is summed again", sharded("mp", [[m, 2 * m], [2 * m]], m, ["mp"]), 9 * m * m),
        check("one part sharded, one copied", line("dp", mixed, m, ["dp"]), 169 * m * m),
        check("one replica: cannot reveal the second sum", hybrid(1, slices, 2 * m, ["replica"]), 25 * m * m),
        check("no group at hand: cannot reveal the error", hybrid(world, slices, 2 * m, []), 25 * m * m),
    ]
