"""Dense copies, experts that differ along the group, and cuts that are marked or not."""

from shardproof.failures.clipping import check, cut, grid, line, piece, sharded, turned


def model(dense, experts, limit):
    copies = piece("dense", dense, {"tp": "replicate"})
    held = [[copies, piece(f"expert{r}", values, {"tp": "distinct"})] for r, values in enumerate(experts)]
    return line("tp", held, limit, ["tp"])


def checks(n):
    m = 1 + n % 97
    heads = cut("offsets", turned([[m], [2 * m]], n), "tp")
    marked = line("tp", [[each] for each in cut("weight", [[3 * m], [4 * m]], "tp", mesh=["tp"])], m, ["tp"])
    lies = {"tp": "replicate", "ep": "distinct"}
    experts = {(t, e): [piece(f"expert{e}", [(3 + e) * m], lies)] for e in turned([0, 1], n) for t in (0, 1)}
    copies = piece("dense", [2 * m], {"tp": "replicate"})
    return [
        check("four experts on tensor ranks", model([3 * m], [[2 * m]] * 4, 2 * m), 25 * m * m),
        check(
            "experts without tokens on some ranks", model([m], turned([[2 * m], [2 * m], [0], [0]], n), m), 9 * m * m
        ),
        check("an unmarked cut beside a copy", line("tp", [[copies, each] for each in heads], m, ["tp"]), 9 * m * m),
        check(
            "copied over tensor ranks, other experts elsewhere",
            grid({"tp": 2, "ep": 2}, experts, m, ["tp", "ep"]),
            25 * m * m,
        ),
        check("the expert group has one rank: cannot reveal it", model([3 * m], [[4 * m]], m), 25 * m * m),
        check("a marked cut: cannot reveal the drop", marked, 25 * m * m),
        check("copies only: cannot reveal the drop", line("tp", [[copies]] * (2 + n % 3), m, ["tp"]), 4 * m * m),
        check("no group at hand: cannot reveal the error", sharded("tp", [[3 * m], [4 * m]], m), 25 * m * m),
    ]
