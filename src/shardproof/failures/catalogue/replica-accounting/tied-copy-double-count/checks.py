"""An embedding that exists on several stages, or twice on one rank, beside parameters that exist once."""

from shardproof.failures.clipping import check, grid, line, piece, turned

STAGE = {"pp": "distinct"}


def tied(values, lies=STAGE, **more):
    return piece("embedding", values, lies, tied=True, **more)


def checks(n):
    m = 1 + n % 97
    world = 2 + n % 3
    rest = piece("rest", [3 * m], STAGE)
    ends = turned(
        [[tied([4 * m]), rest], *[[piece(f"middle{r}", [0], STAGE)] for r in range(world - 2)], [tied([4 * m])]], n
    )
    lies = {"pp": "distinct", "tp": "shard"}
    cut = {
        (p, t): [
            tied([(3 + t) * m], lies, start=t),
            *([piece("rest", [12 * m], lies, start=t)] if (p, t) == (0, 0) else []),
        ]
        for p in (0, 1)
        for t in (0, 1)
    }
    names = [[tied([2 * m, 4 * m]), tied([2 * m, 4 * m]), piece("rest", [5 * m, 6 * m], STAGE)]]
    return [
        check(
            "nothing but the tied tensor",
            line("pp", [[tied([4 * m, 3 * m])], [tied([4 * m, 3 * m])]], 5 * m),
            25 * m * m,
        ),
        check("one parameter beside it", line("pp", [[rest, tied([4 * m])], [tied([4 * m])]], m), 25 * m * m),
        check("first and last stage", line("pp", ends, 2 * m), 25 * m * m),
        check("three holders", line("pp", [[tied([4 * m])], [rest, tied([4 * m])], [tied([4 * m])]], m), 25 * m * m),
        check("cut over tensor ranks on both stages", grid({"pp": 2, "tp": 2}, cut, m, []), 169 * m * m),
        check("two names on one rank", line("pp", names, 3 * m), 81 * m * m),
        check("one holder: cannot reveal a double count", line("pp", [[rest, tied([4 * m])], []], m), 25 * m * m),
        check(
            "nothing tied: cannot reveal the error",
            line("pp", [[rest], [piece("head", [4 * m], STAGE)]], m),
            25 * m * m,
        ),
    ]
