"""The same rule with one expert on each rank of a longer group, and with marked and unmarked cuts together."""

from shardproof.failures.clipping import check, cut, line, piece, turned


def checks(n):
    m = 1 + n % 97
    k = 1 + n % 5  # small where the norm is no integer: float64 has to hold 12 decimals of it
    world = 2 + n % 5
    experts = [[piece(f"expert{r}", [k, k], {"tp": "distinct"})] for r in range(world)]
    dense = piece("dense", [2 * m], {"tp": "replicate"}, mesh=["tp"])
    marked = cut("weight", turned([[4 * m], [2 * m]], n), "tp", mesh=["tp"])
    unmarked = cut("sink", turned([[3 * m], [4 * m]], n), "tp")
    both = [[dense, left, right] for left, right in zip(marked, unmarked)]
    return [
        check("one expert on each rank", line("tp", experts, k, ["tp"]), 2 * world * k * k),
        check("marked and unmarked cuts", line("tp", both, 2 * m, ["tp"]), 49 * m * m),
        check("between the wrong and the right norm", line("tp", both, 6 * m, ["tp"]), 49 * m * m),
        check("copies alone", line("tp", [[dense]] * world, m, ["tp"]), 4 * m * m),
    ]
