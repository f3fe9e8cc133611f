"""The same rule with more chunks and ranks, two axes, and complete beside summed parameters."""

from shardproof.failures.exact import scaled


def checks(n):
    m = 1 + n % 89
    world = 3 + n % 3
    ranks = list(range(world))
    both = {"norm": {"over": {"tp": "complete"}}, "bias": {"over": {"tp": "sum"}}}
    held = [{"norm": [6 * m], "bias": [m * (rank + n % 2)]} for rank in ranks]
    bias = m * (world * (world - 1) // 2 + world * (n % 2))
    gathered = {"w": {"over": {"tp": "complete"}}}
    grid = {"dp": [[0, 1], [2, 3]], "tp": [[0, 2], [1, 3]]}
    mixed = {"w": {"over": {"dp": "mean", "tp": "complete"}, "bypass": {"tp": [0]}}}
    return [
        (
            "complete beside summed",
            ({"groups": {"tp": [ranks]}, "parameters": both, "chunks": [held]},),
            [{"norm": [6 * m], "bias": [bias]} for _ in ranks],
        ),
        (
            "gradient of a gathered tensor",
            ({"groups": {"tp": [[0, 1, 2, 3]]}, "parameters": gathered, "chunks": [[{"w": [1.5 * m, -0.5 * m]}] * 4]},),
            [{"w": scaled([3 * m, -m], 1, 2)} for _ in range(4)],
        ),
        (
            "three chunks of summands",
            (
                {
                    "groups": {"tp": [ranks]},
                    "parameters": {"w": {"over": {"tp": "sum"}}},
                    "chunks": [[{"w": [m * (k == rank % 3)]} for rank in ranks] for k in range(3)],
                },
            ),
            [{"w": [m * world]} for _ in ranks],
        ),
        (
            "complete over one axis, averaged over the other",
            (
                {
                    "groups": grid,
                    "parameters": mixed,
                    "chunks": [
                        [{"w": [m, 2 * m]}, {"w": [3 * m, 6 * m]}, {"w": [5 * m, 2 * m]}, {"w": [7 * m, 6 * m]}]
                    ],
                },
            ),
            [{"w": [8 * m, 4 * m]} for _ in range(4)],
        ),
        (
            "an axis without a rule is refused",
            ({"groups": {"dp": [[0, 1]], "tp": [[0], [1]]}, "parameters": gathered, "chunks": [[{"w": [m]}] * 2]},),
            {"raises": "ValueError"},
        ),
    ]
