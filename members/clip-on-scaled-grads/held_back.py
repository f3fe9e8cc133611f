"""The same rule with other scales, NaN, limits of zero and infinity."""

from shardproof.failures.exact import rounded, scaled


def step_of(gradient, scale, limit, grows=False):
    return ({"stored": [value * scale for value in gradient], "scale": scale, "grows": grows, "limit": limit},)


def stepped(norm, values, scale):
    return {"norm": rounded(norm), "step": values, "scale": scale}


def checks(n):
    m = 1 + n % 89
    scale = 2 ** (2 + n % 13)
    nan = {"stored": [m, float("nan")], "scale": scale, "grows": n % 2 == 0, "limit": None}
    return [
        ("three coordinates", step_of([m, -2 * m, 2 * m], scale, m * 1.5), stepped(3 * m, [m / 2, -m, m], scale)),
        (
            "growth without a limit",
            step_of([5 * m, 12 * m], scale, None, True),
            stepped(13 * m, [5 * m, 12 * m], 2 * scale),
        ),
        ("growth below an infinite limit", step_of([-m], scale, float("inf"), True), stepped(m, [-m], 2 * scale)),
        ("nan is skipped", (nan,), {"norm": None, "step": "skip", "scale": scale / 2}),
        ("limit zero", step_of([3 * m, 4 * m], scale, 0), stepped(5 * m, [0, 0], scale)),
        ("a scale below one", step_of([6 * m, 8 * m], 0.5, m), stepped(10 * m, scaled([6 * m, 8 * m], 1, 10), 0.5)),
    ]
