"""The same rule with more experts, wider ones, cancelling ones, and data ranks of which several hold the expert."""

from fractions import Fraction

from shardproof.failures.exact import rounded, scaled


def checks(n):
    m = 1 + n % 89
    hold = 2 + n % 3
    wide = {f"e{k}": [[m * (k + 1), 2 * m * r] for r in range(hold)] for k in range(4)}
    sums = {f"e{k}": [m * (k + 1) * hold, m * hold * (hold - 1)] for k in range(4)}
    data = 4 * hold
    dense = [[m * (r % 2), -m] for r in range(data)]
    return [
        (
            "four wide experts and a dense weight",
            ({"data": data, "experts": wide, "dense": {"norm": dense}},),
            {
                "experts": {name: scaled(values, 1, data) for name, values in sums.items()},
                "dense": {"norm": [rounded(Fraction(m, 2)), -m]},
            },
        ),
        (
            "experts that cancel each other",
            ({"data": 4, "experts": {"e0": [[2 * m], [6 * m]], "e1": [[-2 * m], [-6 * m]]}, "dense": {}},),
            {"experts": {"e0": [2 * m], "e1": [-2 * m]}, "dense": {}},
        ),
        (
            "one rank saw no tokens",
            ({"data": 16, "experts": {"e0": [[0], [12 * m], [0], [4 * m]]}, "dense": {}},),
            {"experts": {"e0": [m]}, "dense": {}},
        ),
        (
            "extra axis of four, experts on none of it",
            ({"data": 4, "experts": {"e0": [[8 * m]]}, "dense": {"w": [[2 * m]] * 4}},),
            {"experts": {"e0": [2 * m]}, "dense": {"w": [2 * m]}},
        ),
    ]
