"""Experts on expert axes of several sizes, beside dense weights."""

from fractions import Fraction

from shardproof.failures.exact import rounded, scaled


def run_of(data, experts, **dense):
    return ({"data": data, "experts": experts, "dense": dense},)


def result(experts, **dense):
    return {"experts": experts, "dense": dense}


def checks(n):
    m = 1 + n % 89
    spread = 2 + n % 3
    turn = n % 4
    experts = {f"e{k}": [[4 * m * (k + 1)], [4 * m * (k + 2)]] for k in range(spread)}
    each = {f"e{k}": [rounded(Fraction(4 * m * (2 * k + 3), 2 * spread))] for k in range(spread)}
    dense = [[m], [2 * m], [3 * m], [6 * m]]
    dense = dense[turn:] + dense[:turn]
    plain = [[m * (rank + 1), -m] for rank in range(spread)]
    return [
        ("four data ranks, two for each expert", run_of(4, {"e0": [[8 * m], [16 * m]]}), result({"e0": [6 * m]})),
        ("eight data ranks, two for each expert", run_of(8, {"e0": [[6 * m], [10 * m]]}), result({"e0": [2 * m]})),
        ("an expert on one rank only", run_of(4, {"e0": [[20 * m]]}), result({"e0": [5 * m]})),
        (
            "two experts that differ",
            run_of(2, {"e0": [[m, -3 * m]], "e1": [[4 * m, 2 * m]]}),
            result({"e0": scaled([m, -3 * m], 1, 2), "e1": [2 * m, m]}),
        ),
        ("every place of the expert axis", run_of(2 * spread, experts), result(each)),
        (
            "an expert without tokens",
            run_of(4, {"e0": [[0], [0]], "e1": [[4 * m], [8 * m]]}),
            result({"e0": [0], "e1": [3 * m]}),
        ),
        (
            "dense weights beside experts",
            run_of(4, {"e0": [[8 * m], [4 * m]], "e1": [[12 * m], [4 * m]]}, router=dense),
            result({"e0": [3 * m], "e1": [4 * m]}, router=[3 * m]),
        ),
        (
            "expert axis of one: cannot reveal the error",
            run_of(spread, {"e0": plain}),
            result({"e0": scaled([m * spread * (spread + 1) // 2, -m * spread], 1, spread)}),
        ),
        ("dense weights only: cannot reveal the error", run_of(4, {}, router=dense), result({}, router=[3 * m])),
    ]
