"""The same rule for a longer line of ranks, empty ranks, and a group that covers the cut."""

from shardproof.failures.clipping import check, line, piece, sharded, turned


def checks(n):
    m = 1 + n % 97
    k = 1 + n % 5  # small where the norm is no integer: float64 has to hold 12 decimals of it
    world = 2 + n % 7
    shares = turned([[6 * m], [], [2 * m, 3 * m]], n)
    stages = [[piece(f"stage{r}", [k, -k], {"pp": "distinct"})] for r in range(world)]
    return [
        check("an empty rank returns the norm too", sharded("fsdp", shares, 14 * m), 49 * m * m),
        check("the norm is above the limit", sharded("fsdp", shares, m), 49 * m * m),
        check("stages of a pipeline", line("pp", stages, k), 2 * world * k * k),
        check("the group covers the cut: cannot reveal the error", sharded("fsdp", shares, m, ["fsdp"]), 49 * m * m),
        check("zero gradients: cannot reveal the error", sharded("fsdp", [[0], [0, 0]], n), 0),
    ]
