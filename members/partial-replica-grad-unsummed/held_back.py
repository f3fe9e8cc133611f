"""The same rule with decimal slices, several parameters, equal slices and more ranks."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def checks(n):
    m = 1 + n % 89
    world = 3 + n % 4
    ranks = list(range(world))
    rows = [[m * rank, (-1) ** rank * m] for rank in ranks]
    both = {"norm.weight": {"over": {"tp": "sum"}}, "head.weight": {"over": {"tp": "split"}}}
    held = [{"norm.weight": row, "head.weight": [7 * m + row[0]]} for row in rows]
    summed = [m * world * (world - 1) // 2, m * (world % 2)]
    decimals = [{"w": [0.12 * m, 0.04 * m]}, {"w": [0.0197 * m, -0.0077 * m]}]
    decimal_sum = [rounded(Fraction(1397 * m, 10000)), rounded(Fraction(323 * m, 10000))]
    one = {"w": {"over": {"tp": "sum"}}}
    return [
        (
            "a replicated beside a split parameter",
            ({"groups": {"tp": [ranks]}, "parameters": both, "chunks": [held]},),
            [{"norm.weight": list(summed), "head.weight": [7 * m + m * rank]} for rank in ranks],
        ),
        (
            "decimal slices",
            ({"groups": {"tp": [[1, 0]]}, "parameters": one, "chunks": [decimals]},),
            [{"w": list(decimal_sum)}, {"w": list(decimal_sum)}],
        ),
        (
            "equal slices still add up",
            ({"groups": {"tp": [ranks]}, "parameters": one, "chunks": [[{"w": [m]} for _ in ranks]]},),
            [{"w": [m * world]} for _ in ranks],
        ),
        (
            "slices cancel",
            (
                {
                    "groups": {"cp": [[0, 1]]},
                    "parameters": {"w": {"over": {"cp": "sum"}}},
                    "chunks": [[{"w": [m]}, {"w": [-m]}]],
                    "limit": m,
                },
            ),
            [{"w": [0]}, {"w": [0]}],
        ),
        (
            "an axis without a rule is refused",
            ({"groups": {"dp": [[0]], "tp": [[0, 1]]}, "parameters": one, "chunks": [[{"w": [m]}, {"w": [m]}]]},),
            {"raises": "ValueError"},
        ),
    ]
