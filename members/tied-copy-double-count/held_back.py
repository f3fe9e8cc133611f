"""The same rule with data-parallel copies of the tied tensor, and under a limit that only a wrong norm exceeds."""

from shardproof.failures.clipping import check, grid, line, piece, turned


def tied(values, lies):
    return piece("embedding", values, lies, tied=True)


def checks(n):
    m = 1 + n % 97
    world = 2 + n % 4
    lies = {"dp": "replicate", "pp": "distinct"}
    held = {
        (d, p): [tied([6 * m, 2 * m], lies), piece(f"stage{p}", [3 * p * m], lies)] for p in (0, 1) for d in range(2)
    }
    everywhere = [[tied([m, 2 * m, -2 * m], {"pp": "distinct"})] for _ in range(world)]
    rest = piece("rest", [4 * m], {"pp": "distinct"})
    return [
        check("copies of a tied tensor", grid({"dp": 2, "pp": 2}, held, m, ["dp"]), 49 * m * m),
        check("every stage holds it", line("pp", everywhere, m), 9 * m * m),
        check("at the limit when counted once", line("pp", everywhere, 3 * m), 9 * m * m),
        check(
            "a stage with it alone",
            line(
                "pp", turned([[tied([3 * m], {"pp": "distinct"})], [tied([3 * m], {"pp": "distinct"}), rest]], n), 2 * m
            ),
            25 * m * m,
        ),
    ]
