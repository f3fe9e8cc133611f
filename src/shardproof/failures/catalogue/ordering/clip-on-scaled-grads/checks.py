"""Loss scales that stay, grow and overflow; limits above and below the true norm."""

from shardproof.failures.exact import rounded, scaled

INF = float("inf")


def step_of(gradient, scale, limit, grows=False):
    return ({"stored": [value * scale for value in gradient], "scale": scale, "grows": grows, "limit": limit},)


def stepped(norm, values, scale):
    return {"norm": rounded(norm), "step": values, "scale": scale}


def skipped(scale):
    return {"norm": None, "step": "skip", "scale": scale}


def checks(n):
    m = 1 + (n - 1) % 97
    scale = 2 ** (1 + n % 15)
    hole = {"stored": [m, INF, -m][n % 3 :] + [m, INF, -m][: n % 3], "scale": scale, "grows": False, "limit": m}
    return [
        ("above the limit", step_of([3 * m, 4 * m], 1024, 2.5 * m), stepped(5 * m, [1.5 * m, 2 * m], 1024)),
        (
            "below the limit, the stored norm far above",
            step_of([0.75 * m, m], 65536, 2 * m),
            stepped(1.25 * m, [0.75 * m, m], 65536),
        ),
        ("half the norm", step_of([6 * m, 8 * m], 16, 5 * m), stepped(10 * m, [3 * m, 4 * m], 16)),
        ("the scale grows, no limit", step_of([m], 4, None, grows=True), stepped(m, [m], 8)),
        (
            "the scale grows, below the limit",
            step_of([3 * m, 0, 4 * m], scale, 6 * m, grows=True),
            stepped(5 * m, [3 * m, 0, 4 * m], 2 * scale),
        ),
        (
            "the scale grows, above the limit",
            step_of([5 * m], 8, m, grows=True),
            stepped(5 * m, scaled([5 * m], 1, 5), 16),
        ),
        (
            "overflow of the stored gradient",
            ({"stored": [INF], "scale": 65536, "grows": False, "limit": None},),
            skipped(32768),
        ),
        ("one value overflows under a limit", (hole,), skipped(scale / 2)),
        ("zero gradient: cannot reveal the error", step_of([0, 0], scale, m), stepped(0, [0, 0], scale)),
        ("scale one: cannot reveal the error", step_of([6 * m, 8 * m], 1, 5 * m), stepped(10 * m, [3 * m, 4 * m], 1)),
    ]
