"""The same rule with more micro-batches, three coordinates, several ranks, and either buffer."""

from shardproof.failures.exact import scaled


def run_of(how, buffer, limit, *ranks):
    return ({"ranks": list(ranks), "accumulate": how, "buffer": buffer, "reduce": "mean", "limit": limit},)


def checks(n):
    m = 1 + n % 89
    steps = 3 + n % 4
    buffer, other = ("grad", "apart")[:: 1 if n % 2 else -1]
    parts = [[9 * m, 0, 0], [-8 * m, 2 * m, 0], *[[0, 0, 0]] * (steps - 3), [0, 0, 2 * m]]
    return [
        ("large parts that cancel", run_of("sum", buffer, 3 * m, parts), [m, 2 * m, 2 * m]),
        ("the same above the limit", run_of("sum", other, 2 * m, parts), scaled([m, 2 * m, 2 * m], 2, 3)),
        ("one part carries the step", run_of("mean", other, 5 * m, [[12 * m, 16 * m], [0, 0]]), [3 * m, 4 * m]),
        (
            "two ranks, two micro-batches",
            run_of("sum", buffer, 5 * m, [[12 * m, 0], [0, 0]], [[0, 8 * m], [0, 8 * m]]),
            [3 * m, 4 * m],
        ),
        ("limit zero", run_of("sum", "apart", 0, [[m, 0], [0, m]]), [0, 0]),
        ("no gradient", run_of("mean", "grad", m, [[0, 0]] * steps), [0, 0]),
    ]
