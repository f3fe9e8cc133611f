"""What each rank returns as the norm, on one and on two axes, before and after clipping."""

from shardproof.failures.clipping import check, cut, grid, line, piece, sharded, turned


def checks(n):
    m = 1 + n % 97
    k = 1 + n % 5  # small where the norm is no integer: float64 has to hold 12 decimals of it
    world = 2 + n % 3
    two = {"dp": 2, "tp": 2}
    rows = cut("weight", [[2 * k], [4 * k]], "tp")
    both = {(d, t): [rows[t] | {"lies": {"dp": "replicate", "tp": "shard"}}] for d in (0, 1) for t in (0, 1)}
    copies = [[piece("weight", [3 * m, 4 * m], {"dp": "replicate"})] for _ in range(world)]
    return [
        check("four ranks with equal shares", sharded("fsdp", [[2 * m]] * 4, 8 * m), 16 * m * m),
        check("shares of another size", sharded("fsdp", turned([[k, k], [5 * k, k]], n), 9 * k), 28 * k * k),
        check("a rank that holds zeros only", sharded("fsdp", turned([[3 * m], [0]], n), 3 * m), 9 * m * m),
        check("the norm before clipping is returned", sharded("fsdp", turned([[3 * m], [4 * m]], n), m), 25 * m * m),
        check("the group lacks the axis that is cut", grid(two, both, 10 * k, ["dp"]), 20 * k * k),
        check("every rank sees all: cannot reveal the error", line("dp", copies, 2 * m), 25 * m * m),
        check("single rank: cannot reveal the error", sharded("fsdp", [[3 * m, 4 * m]], 10 * m), 25 * m * m),
    ]
