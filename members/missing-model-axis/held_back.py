"""The same rule on longer pipelines, on tensor slices within stages, and under a limit that one stage alone keeps."""

from shardproof.failures.clipping import check, grid, line, piece, sharded


def checks(n):
    m = 1 + n % 97
    k = 1 + n % 5  # small where the norm is no integer: float64 has to hold 12 decimals of it
    world = 2 + n % 4
    stages = [[piece(f"stage{r}", [k] * (r + 1), {"pp": "distinct"})] for r in range(world)]
    lies = {"pp": "distinct", "tp": "shard"}
    cells = {
        (p, t): [piece(f"stage{p}", [(2 + 2 * p) * k, k * t * (1 + p)], lies, start=2 * t, mesh=["tp"])]
        for p in (0, 1)
        for t in (0, 1)
    }
    # stage 0: 2, 0, 2, 1 (9); stage 1: 4, 0, 4, 2 (36).
    copies = [[piece("dense", [3 * m, 4 * m], {"dp": "replicate"})] for _ in range(world)]
    return [
        check("stages of growing size", line("pp", stages, k), world * (world + 1) // 2 * k * k),
        check("slices within stages", grid({"pp": 2, "tp": 2}, cells, k, []), 45 * k * k),
        check("slices within stages, group over slices", grid({"pp": 2, "tp": 2}, cells, k, ["tp"]), 45 * k * k),
        check("group over stages, slices known", grid({"pp": 2, "tp": 2}, cells, k, ["pp"]), 45 * k * k),
        check("between one slice and the whole", sharded("tp", [[3 * m], [4 * m]], 9 * m // 2), 25 * m * m),
        check("copies only: cannot reveal the error", line("dp", copies, m), 25 * m * m),
    ]
