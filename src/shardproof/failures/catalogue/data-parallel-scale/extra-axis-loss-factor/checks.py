"""Extra axes that cut the sequence, copy it or reduce shards, with one and with several loss terms."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def term(parts, multiplied, divide=1, **lies):
    return {"lies": lies, "parts": [[part] for part in parts], "multiplied": multiplied, "divide": divide}


def run_of(axes, **terms):
    return ({"axes": axes, "terms": terms},)


def result(**terms):
    return {"terms": {name: [rounded(value)] for name, value in terms.items()}, "grad": [rounded(sum(terms.values()))]}


def checks(n):
    m = 1 + n % 53
    size = 2 + n % 3
    turn = n % 4
    batch = [m, 2 * m, 4 * m, 5 * m]
    batch = batch[turn:] + batch[:turn]
    cut = [m * (1 + (rank + turn) % size) for rank in range(size)]
    cut_sum = Fraction(m * size * (size + 1), 2)
    spread = [75 * m * (1 + (rank + turn) % 2) for rank in range(8)]
    main = term([10 * m] * 4, ["cp", "tp"], cp="copy", tp="copy")
    return [
        (
            "context axis of four, data axis of two",
            run_of({"dp": 2, "cp": 4}, main=term([2 * m] * 8, ["cp"], dp="mean", cp="sum")),
            result(main=8 * m),
        ),
        (
            "main term with factor, auxiliary term without",
            run_of({"cp": 2, "tp": 2}, main=main, aux=term([m] * 4, [], cp="copy", tp="copy")),
            result(main=10 * m, aux=m),
        ),
        (
            "auxiliary term alone",
            run_of({"cp": 4}, aux=term(batch, [], cp="sum")),
            result(aux=12 * m),
        ),
        (
            "tensor axis holds copies",
            run_of(
                {"dp": 4, "tp": 2},
                main=term([part for part in batch for _ in range(2)], ["tp"], 16, dp="sum", tp="copy"),
            ),
            result(main=Fraction(12 * m, 16)),
        ),
        (
            "sequence axis, cut in other ways",
            run_of({"sp": size}, main=term(cut, ["sp"], 4, sp="sum")),
            result(main=cut_sum / 4),
        ),
        (
            "divide factor on replicate and shard",
            run_of(
                {"replicate": 2, "shard": 4},
                main=term(spread, ["shard"], 300, replicate="sum", shard="sum"),
            ),
            result(main=3 * m),
        ),
        (
            "same divide factor on the flat mesh: cannot reveal the error",
            run_of({"dp": 8}, main=term(spread, [], 300, dp="sum")),
            result(main=3 * m),
        ),
        (
            "two axes, only one with a factor",
            run_of(
                {"dp": 1, "cp": 2, "tp": size}, main=term([3 * m] * (2 * size), ["tp"], dp="mean", cp="sum", tp="copy")
            ),
            result(main=6 * m),
        ),
        (
            "auxiliary term detached",
            run_of(
                {"tp": size},
                main=term([10 * m] * size, [], tp="copy"),
                aux=term([m] * size, ["tp"], tp="copy") | {"detached": True},
            ),
            result(main=10 * m, aux=m),
        ),
        (
            "extra axes of size one: cannot reveal the error",
            run_of({"dp": size, "cp": 1}, main=term(cut, ["cp"], dp="mean", cp="sum")),
            result(main=cut_sum / size),
        ),
    ]
