"""The same order with other worlds, three coordinates, and limits at and around the reduced norm."""

from shardproof.failures.exact import scaled


def run_of(reduce, limit, *ranks, accumulate="sum", buffer="grad"):
    return ({"ranks": list(ranks), "accumulate": accumulate, "buffer": buffer, "reduce": reduce, "limit": limit},)


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 5
    rows = [[[0, 0, 0]] for _ in range(world)]
    rows[n % world] = [[world * m, 2 * world * m, 2 * world * m]]
    return [
        ("the whole gradient on one of some ranks", run_of("mean", 3 * m, *rows), [m, 2 * m, 2 * m]),
        ("the same above the limit", run_of("mean", 2 * m, *rows), scaled([m, 2 * m, 2 * m], 2, 3)),
        ("equal ranks, summed", run_of("sum", 2 * m, *[[[3 * m, 4 * m]]] * 2), scaled([6 * m, 8 * m], 1, 5)),
        (
            "micro-batches of unlike sign",
            run_of("sum", 5 * m, [[9 * m, 0], [-3 * m, 0]], [[0, 5 * m], [0, 3 * m]], buffer="apart"),
            [3 * m, 4 * m],
        ),
        ("no gradient at all", run_of("mean", m, *[[[0, 0]]] * world), [0, 0]),
    ]
