"""Public reports about the scope of a norm and about copies: the map's programs give the numbers that were reported.

Each case is a report's smallest example in our contract: the numbers that it calls wrong come from one of the two
wrong programs of the mechanism that the report is filed under, the right ones from its repair.
"""

import math

import pytest

from shardproof.failures.clipping import cut, line, piece, sharded
from shardproof.failures.mechanism import CATALOGUE, function_of, members_folder

FAMILIES = {
    **dict.fromkeys(("partial-norm-reported", "missing-model-axis"), "norm-scope"),
    **dict.fromkeys(("separate-group-norms", "norms-combined-linearly", "local-shard-clip"), "norm-scope"),
    **dict.fromkeys(("replica-counted-n-times", "copy-axis-summed"), "replica-accounting"),
    **dict.fromkeys(("tied-copy-double-count", "shard-dropped-as-duplicate"), "replica-accounting"),
}


def copies(values, ranks, axis="dp", **more):
    return [piece("copied", values, {axis: "replicate"}, **more) for _ in range(ranks)]


def distinct(axis, *values, name="stage"):
    return [piece(f"{name}{index}", each, {axis: "distinct"}) for index, each in enumerate(values)]


def together(*columns):
    return [list(rank) for rank in zip(*columns, strict=True)]


def alone(column):
    return [[each] for each in column]


def tied(values, ranks):
    return [piece("embedding", values, {"pp": "distinct"}, tied=True) for _ in range(ranks)]


FREE = 1e9
"""A limit that clips nothing."""

# report: (mechanism, role, argument of clip-run, right norm, wrong norm on each rank, wrong values or None)
RUNS = {
    "torchtitan 766": (
        ("partial-norm-reported", "failing"),
        sharded("dp", [[1, 1], [5, 1]], FREE),
        5.29150262,
        [1.41421356, 5.09901951],
        None,
    ),
    "pytorch 144054": (
        ("partial-norm-reported", "failing"),
        sharded("dp", [[1] * 32] * 2, FREE),
        8.0,
        [5.65685425] * 2,
        None,
    ),
    "torchtune 2240, 2 shards": (
        ("partial-norm-reported", "failing"),
        sharded("dp", [[3] * 8] * 2, FREE),
        12.0,
        [8.48528137] * 2,
        None,
    ),
    "torchtune 2240, 8 shards": (
        ("partial-norm-reported", "failing"),
        sharded("dp", [[3] * 2] * 8, FREE),
        12.0,
        [4.24264069] * 8,
        None,
    ),
    "hyper-parallel 760": (
        ("partial-norm-reported", "failing"),
        sharded("dp", [[1, 2], [2, 0]], FREE),
        3.0,
        [2.23606798, 2.0],
        None,
    ),
    "fairseq2 1026": (
        ("partial-norm-reported", "failing"),
        sharded("dp", [[8], [6]], FREE),
        10.0,
        [8.0, 6.0],
        None,
    ),
    "torchtitan 596": (
        ("missing-model-axis", "failing"),
        line("pp", alone(distinct("pp", [3, 0], [0, 4])), 2.5),
        5.0,
        [3.0, 4.0],
        [[[2.5, 0.0]], [[0.0, 2.5]]],
    ),
    "modalities 313": (
        ("missing-model-axis", "failing"),
        line("pp", alone(distinct("pp", [1, 1], [7])), 2.0),
        7.14142843,
        [1.41421356, 7.0],
        [[[1.0, 1.0]], [[2.0]]],
    ),
    "Paddle 35893": (
        ("missing-model-axis", "failing"),
        sharded("tp", [[3], [4]], 1.0),
        5.0,
        [3.0, 4.0],
        [[[1.0]], [[1.0]]],
    ),
    "ColossalAI 2192": (
        ("missing-model-axis", "failing"),
        line("ep", together(copies([6], 2, "ep"), distinct("ep", [8], [0])), 5.0),
        10.0,
        [10.0, 6.0],
        [[[3.0], [4.0]], [[5.0], [0.0]]],
    ),
    "Automodel 3816": (
        ("missing-model-axis", "failing"),
        line("ep", together(cut("dense", [[1], [1]], "ep", mesh=["ep"]), distinct("ep", [40], [4])), 1.0),
        40.22437072,
        [40.02499219, 4.24264069],
        [[[0.02498439], [0.99937559]], [[0.23570226], [0.94280904]]],
    ),
    "DeepSpeed 8613": (
        ("missing-model-axis", "unsuccessful"),
        line("ep", together(copies([3] * 4, 1, "ep"), distinct("ep", [4] * 4)), 5.0),
        10.0,
        [6.0],
        [[[2.5] * 4, [3.33333333] * 4]],
    ),
    "Paddle 35713": (
        ("replica-counted-n-times", "failing"),
        line("mp", together(cut("w", [[2], [1]], "mp"), copies([2], 2, "mp")), 1.5, ["mp"]),
        3.0,
        [3.60555128] * 2,
        [[[0.8320503], [0.8320503]], [[0.41602515], [0.8320503]]],
    ),
    "LBANN 2376": (
        ("replica-counted-n-times", "failing"),
        line("mp", together(cut("w", [[1]] * 4, "mp"), copies([2, 1], 4, "mp")), FREE, ["mp"]),
        3.0,
        [4.89897949] * 4,
        None,
    ),
    "hyper-parallel 279": (
        ("replica-counted-n-times", "failing"),
        line("dp", together(cut("w", [[1, 1]] * 8, "dp"), copies([3], 8)), 2.5, ["dp"]),
        5.0,
        [9.38083152] * 8,
        [[[0.2665009] * 2, [0.79950269]]] * 8,
    ),
    "pytorch 88621": (
        ("copy-axis-summed", "failing"),
        line("dp", alone(copies([3, 4], 4)), 5.0, ["dp"]),
        5.0,
        [10.0] * 4,
        [[[1.5, 2.0]]] * 4,
    ),
    "Paddle 35691": (
        ("copy-axis-summed", "failing"),
        sharded("mp", [[2, 1], [2]], 1.5, ["mp"]),
        3.0,
        [4.24264069] * 2,
        [[[0.70710678, 0.35355339]], [[0.70710678]]],
    ),
    "Megatron-LM 7227": (
        ("tied-copy-double-count", "failing"),
        line("pp", alone(tied([20, 20], 2)), 14.14213562),
        28.28427125,
        [40.0] * 2,
        [[[7.07106781] * 2]] * 2,
    ),
    "DeepSpeed 1252": (
        ("tied-copy-double-count", "failing"),
        line(
            "pp",
            [
                [piece("rest", [3], {"pp": "distinct"}), each] if r == 0 else [each]
                for r, each in enumerate(tied([4], 2))
            ],
            FREE,
        ),
        5.0,
        [6.40312424] * 2,
        None,
    ),
    "Megatron-LM 5916": (
        ("shard-dropped-as-duplicate", "failing"),
        line("tp", together(copies([3], 4, "tp"), distinct("tp", [2], [2], [2], [2])), 2.5, ["tp"]),
        5.0,
        [3.60555128] * 4,
        [[[2.08012574], [1.38675049]]] * 4,
    ),
    "radixark 80": (
        ("shard-dropped-as-duplicate", "failing"),
        line("tp", together(copies([1], 4, "tp"), distinct("tp", [2], [2], [0], [0])), 1.5, ["tp"]),
        3.0,
        [2.23606798] * 4,
        [[[0.67082039], [2 * 0.67082039]]] * 2 + [[[0.67082039], [0.0]]] * 2,
    ),
}

# report: (mechanism, role, arguments, right result, wrong result)
LISTS = {
    "SpecForge 663": ("local-shard-clip", ([[3.0, 0.0], [0.0, 4.0]], 1.0), [[0.6, 0], [0, 0.8]], [[1, 0], [0, 1]]),
    "OpenDiloco 6": (
        "local-shard-clip",
        ([[6.0, 0.0], [0.0, 8.0], [0.0, 0.0]], 5.0),
        [[3, 0], [0, 4], [0, 0]],
        [[5, 0], [0, 5], [0, 0]],
    ),
    "xla 4796": ("local-shard-clip", ([[2.0], [2.0], [1.0]], 1.5), [[1], [1], [0.5]], [[1.5], [1.5], [1]]),
    "pytorch 72548": (
        "local-shard-clip",
        ([[1.0, 0.0], [0.0, 7.0]], 3.5),
        [[0.49497475, 0], [0, 3.46482323]],
        [[1, 0], [0, 3.5]],
    ),
    "apex 819": (
        "separate-group-norms",
        ({"a": [6.0, 0.0], "b": [0.0, 8.0]}, 5.0),
        {"a": [3, 0], "b": [0, 4]},
        {"a": [5, 0], "b": [0, 5]},
    ),
    "marin 6160": (
        "separate-group-norms",
        ({"a": [1.0], "b": [2.0], "c": [2.0]}, 1.5),
        {"a": [0.5], "b": [1], "c": [1]},
        {"a": [1], "b": [1.5], "c": [1.5]},
    ),
    "tensorflow 29108": (
        "separate-group-norms",
        ({"a": [6.0], "b": [2.0, 3.0]}, 3.5),
        {"a": [3], "b": [1, 1.5]},
        {"a": [3.5], "b": [1.94145069, 2.91217603]},
    ),
    "DeepSpeed 8475": (
        "norms-combined-linearly",
        ([{"lies": "distinct", "ranks": [[4, 2], [6, 8]]}], 2, 5.0, "mean"),
        {"norm": 10.95445115, "factor": 0.45643546},
        {"norm": 7.23606798, "factor": 0.69098301},
    ),
    "ms-swift 8341": (
        "norms-combined-linearly",
        ([{"lies": "mean", "ranks": [[3, 0], [-3, 4]]}], 2, FREE, "mean"),
        {"norm": 2.0, "factor": 1},
        {"norm": 4.0, "factor": 1},
    ),
    "fairscale 167": (
        "norms-combined-linearly",
        ([{"lies": "distinct", "ranks": [[3], [4]]}], 2, FREE, "sum"),
        {"norm": 5.0, "factor": 1},
        {"norm": 4.0, "factor": 1},
    ),
}


def solve_of(slug, role):
    if role != "repair":
        return function_of(CATALOGUE / FAMILIES[slug] / slug / f"{role}.py", "solve")
    if members_folder() is None:
        pytest.skip("the repairs are held back: there is no members folder")
    return function_of(members_folder() / slug / "repair.py", "solve")


def close(seen, reported):
    """Equal as far as a report's eight decimals go."""
    if isinstance(reported, dict):
        return seen.keys() == reported.keys() and all(close(seen[key], reported[key]) for key in reported)
    if isinstance(reported, list):
        return len(seen) == len(reported) and all(map(close, seen, reported))
    return math.isclose(seen, reported, abs_tol=2e-8)


@pytest.mark.parametrize("report", RUNS)
def test_the_numbers_of_a_report_about_ranks_are_reproduced(report):
    (slug, role), run, _, norms, values = RUNS[report]
    ended = solve_of(slug, role)(run)
    assert close([each["norm"] for each in ended], norms)
    assert values is None or close([each["values"] for each in ended], values)


@pytest.mark.parametrize("report", RUNS)
def test_the_repair_gives_what_a_report_about_ranks_calls_right(report):
    (slug, _), run, norm, _, _ = RUNS[report]
    ended = solve_of(slug, "repair")(run)
    assert close([each["norm"] for each in ended], [norm] * len(run["ranks"]))


@pytest.mark.parametrize("report", LISTS)
def test_the_numbers_of_a_report_about_lists_are_reproduced(report):
    slug, arguments, _, wrong = LISTS[report]
    role = "unsuccessful" if report == "fairscale 167" else "failing"
    assert close(solve_of(slug, role)(*arguments), wrong)


@pytest.mark.parametrize("report", LISTS)
def test_the_repair_gives_what_a_report_about_lists_calls_right(report):
    slug, arguments, right, _ = LISTS[report]
    assert close(solve_of(slug, "repair")(*arguments), right)
