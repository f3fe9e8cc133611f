"""The same rule on other meshes, with wrapped beside late parameters, and a clip after the reduction."""

from shardproof.failures.exact import scaled


def checks(n):
    m = 1 + n % 89
    turn = n % 3
    both = {"w": {"over": {"dp": "mean", "sp": "mean"}}, "lora": {"over": {"dp": "mean", "sp": "mean"}, "late": True}}
    held = [{"w": [k * m], "lora": [2 * k * m]} for k in (1, 3, 5, 7)]
    threes = [[3 * m, 0], [0, 3 * m], [6 * m, 9 * m]]
    threes = threes[turn:] + threes[:turn]
    everywhere = {"expert": {"over": {"dp": "split"}}}
    return [
        (
            "wrapped beside late",
            ({"groups": {"dp": [[0, 2], [1, 3]], "sp": [[0, 1], [2, 3]]}, "parameters": both, "chunks": [held]},),
            [{"w": [4 * m], "lora": [8 * m]} for _ in range(4)],
        ),
        (
            "three sequence ranks in no data group, clipped",
            (
                {
                    "groups": {"sp": [[0, 1, 2]]},
                    "parameters": {"w": {"over": {"sp": "mean"}}},
                    "chunks": [[{"w": row} for row in threes]],
                    "limit": 2.5 * m,
                },
            ),
            [{"w": scaled([3 * m, 4 * m], 1, 2)} for _ in range(3)],
        ),
        (
            "one expert on each data rank",
            (
                {
                    "groups": {"dp": [[0, 1]]},
                    "parameters": everywhere,
                    "chunks": [[{"expert": [m]}, {"expert": [5 * m]}]],
                },
            ),
            [{"expert": [m]}, {"expert": [5 * m]}],
        ),
        (
            "summed inside, averaged outside",
            (
                {
                    "groups": {"dp": [[0, 1], [2, 3]], "tp": [[0, 2], [1, 3]]},
                    "parameters": {"w": {"over": {"dp": "mean", "tp": "sum"}, "late": True}},
                    "chunks": [
                        [{"w": [k * m]} for k in (1, 3, 5, 7)],
                        [{"w": [m * (rank == turn)]} for rank in range(4)],
                    ],
                    "lr": 0.5,
                },
            ),
            [{"w": scaled([17 * m], -1, 4)} for _ in range(4)],
        ),
        (
            "an axis without a rule is refused",
            ({"groups": {"tp": [[0, 1]]}, "parameters": {"w": {"over": {}}}, "chunks": [[{"w": [m]}, {"w": [m]}]]},),
            {"raises": "ValueError"},
        ),
    ]
