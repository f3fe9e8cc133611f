"""The same rule on two axes, on more ranks, and under a limit that only a wrong norm exceeds."""

from shardproof.failures.clipping import check, cut, grid, line, piece


def checks(n):
    m = 1 + n % 97
    k = 1 + n % 5  # small where the norm is no integer: float64 has to hold 12 decimals of it
    world = 2 + n % 4
    bias = piece("bias", [2 * k], {"tp": "replicate"})
    held = [[weight, bias] for weight in cut("weight", [[k]] * world, "tp")]
    slices = [
        piece("weight", [3 * m], {"dp": "shard", "tp": "replicate"}),
        piece("weight", [4 * m], {"dp": "shard", "tp": "replicate"}, start=1),
    ]
    both = {(d, t): [slices[d]] for d in (0, 1) for t in (0, 1)}
    return [
        check("as many slices as ranks", line("tp", held, k, ["tp"]), (world + 4) * k * k),
        check("under the limit when counted once", line("tp", held, 3 * k, ["tp"]), (world + 4) * k * k),
        check("cut on one axis, copied on the other", grid({"dp": 2, "tp": 2}, both, m, ["dp", "tp"]), 25 * m * m),
        check("an empty slice", line("tp", [[bias], [bias]], k, ["tp"]), 4 * k * k),
    ]
