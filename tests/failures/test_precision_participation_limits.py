"""Families G, H and I: the role rules for many variants, and the wrong numbers of public reports."""

import math

import pytest

from shardproof.failures.mechanism import (
    checks_of,
    folders_named,
    function_of,
    load_mechanism,
    member_of,
    members_folder,
)
from shardproof.failures.roles import observe, sources, try_variant

NAN, INF = math.nan, math.inf
FAMILIES = ("precision-and-non-finite", "participation", "layout-and-limits")
MECHANISMS = {folder.name: load_mechanism(folder) for folder in folders_named(FAMILIES)}


def half(*values):
    return {"dtype": "float16", "values": list(values)}


def brain(*values):
    return {"dtype": "bfloat16", "values": list(values)}


def there(*values):
    return [{"gradient": [value], "tokens": 1} for value in values]


def layer(size, limit=1.0, name="all", rule="scaled"):
    return {"rule": rule, "size": size, "name": name, "limit": limit}


NEAREST = 2.0**-23  # What float16 makes of 1e-7.
PER_SAMPLE, ONE_LAYER = [[[3.0, 4.0]], [[0.0, 0.5]]], [layer(2)]
EIGHT = [layer(1, name=f"layer {index}") for index in range(8)]
MUON = [layer(2), layer(2, rule="orthogonalised")]
FOUR = [[1e20, 1e20], [1e20, 1e20]]
LOSSES = [[1.0], [NAN], [1.2]]
# slug, where it was reported, the arguments, the path to one number or list of the result, what is right there, and
# what the failing and the unsuccessful program give; None: the report says nothing that this program must show.
REPORTS = [
    ("square-out-of-range", "fairscale/263", ([half(3000.0), half(4000.0)], 5.0), "norm", 5000.0, INF, INF),
    ("square-out-of-range", "fairscale/263", ([half(3000.0), half(4000.0)], 5.0), "factor", 0.001, 0.0, 0.0),
    ("square-out-of-range", "burn/5699", ([half(300.0)], 1.0), "values", [[1.0]], [[0.0]], [[0.0]]),
    ("square-out-of-range", "jax_privacy/309", ([half(*[2.0**-13] * 4)], 2.0**-13), "norm", 2.0**-12, 0.0, 0.0),
    ("square-out-of-range", "jax_privacy/309", ([half(*[2.0**-13] * 4)], 2.0**-13), "factor", 0.5, 1.0, 1.0),
    ("low-precision-norm-grouping", "torchtitan/4135", ([brain(100, 7, 7, 7)], 1), "norm", 100.73231855, 101.0, None),
    (
        "low-precision-norm-grouping",
        "torchtitan/4135",
        ([brain(100), brain(7), brain(7), brain(7)], 1),
        "norm",
        100.73231855,
        100.5,
        None,
    ),
    (
        "low-precision-norm-grouping",
        "torchtitan/4135",
        ([brain(100, 7), brain(7, 7)], 50),
        "norm",
        100.73231855,
        100.5,
        None,
    ),
    ("low-precision-norm-grouping", "Automodel/825", ([brain(256), brain(8)], 1), "norm", 256.1249695, 256.0, None),
    (
        "low-precision-norm-grouping",
        "Megatron-LM/7338",
        ([brain(3.0), {"dtype": "float32", "values": [4.0]}], 1),
        "norm",
        5.0,
        None,
        None,
    ),
    ("nonfinite-norm-policy", "pytorch/46849", ([FOUR], 1.0, "float32", 1), "steps.0.norm", 2e20, INF, None),
    (
        "nonfinite-norm-policy",
        "pytorch/46849",
        ([FOUR], 1.0, "float32", 1),
        "steps.0.values",
        [[0.5, 0.5]] * 2,
        [[0.0, 0.0]] * 2,
        None,
    ),
    (
        "nonfinite-norm-policy",
        "torchtitan/4226",
        ([[[1.0]], [[NAN]], [[1.0]]], 1.0, "float32", 10),
        "stopped_before",
        2,
        None,
        None,
    ),
    (
        "nonfinite-norm-policy",
        "torchtitan/4226",
        ([[[1.0]], [[NAN]], [[1.0]]], 1.0, "float32", 10),
        "weights",
        [-1.0],
        [NAN],
        None,
    ),
    (
        "nonfinite-flag-local",
        "pytorch/115710",
        ([[INF], [1.0], [1.0], [1.0]], 1.0, 2.0, "float32"),
        "*.skip",
        [True, True, True, True],
        [True, False, False, False],
        None,
    ),
    (
        "nonfinite-flag-local",
        "WeatherGenerator/2724",
        (LOSSES, 1.0, 2.0, "float32"),
        "*.skip",
        [True, True, True],
        None,
        [False, False, False],
    ),
    (
        "nonfinite-flag-local",
        "Speech/637",
        ([[40000.0, 40000.0], [40000.0, 40000.0]], 1.0, 2.0, "float16"),
        "*.skip",
        [False, False],
        [True, True],
        [True, True],
    ),
    (
        "accumulator-precision-or-width",
        "ISEEKYAN/149",
        ("bfloat16", [[1.0, 1], [0.00390625, 2]], False),
        "",
        1.0078125,
        1.0,
        None,
    ),
    ("accumulator-precision-or-width", "pytorch/59522", ("float16", [[40000.0, 2]], True), "", 40000.0, INF, None),
    ("accumulator-precision-or-width", "horovod/1699", ("float16", [[300.0, 256]], True), "", 300.0, INF, None),
    ("accumulator-precision-or-width", "horovod/1699", ("float16", [[NEAREST, 256]], True), "", 1.2e-07, None, 0.0),
    (
        "accumulator-precision-or-width",
        "pytorch/65815",
        ("float32", [[2**24, 1], [1, 1]], False),
        "",
        2**24 + 1,
        2**24,
        None,
    ),
    (
        "accumulator-precision-or-width",
        "TransformerEngine/3136",
        ("int32", [[2**31 - 1, 1], [3, 1]], False),
        "",
        2147483650,
        -2147483646,
        None,
    ),
    ("early-return-skips-collective", "AReaL/1139", ([[3.0, 4.0], []], 2), "norms", [5.0, 5.0], None, None),
    ("early-return-skips-collective", "AReaL/1139", ([[3.0, 4.0], []], 2), "collectives", [1, 1], [1, 0], None),
    ("early-return-skips-collective", "AReaL/1139", ([[3.0, 4.0], []], 2), "ended", "returned", "hang", None),
    (
        "early-return-skips-collective",
        "Model-Optimizer/1621",
        ([[], [2.0], [1.0, 2.0]], 2),
        "collectives",
        [1, 1, 1],
        [0, 1, 1],
        None,
    ),
    ("empty-norm-identity", "Megatron-LM/5529", ([[], [1.0, -7.0]], INF, 1), "norm", 7.0, ValueError, ValueError),
    ("empty-norm-identity", "torchrec/3891", ([[], [2.0, -3.0]], INF, 1), "norm", 3.0, ValueError, ValueError),
    ("absent-rank-divisor", "pytorch/42577", ([*there(1.0, 1.0, 1.0), None], "present"), "0", 1.0, 0.75, None),
    ("absent-rank-divisor", "pytorch/42577", ([*there(1.0, 1.0, 1.0), None], "initial"), "0", 0.75, None, 1.0),
    ("zero-count-denominator", "OLMo-core/657", ([0.0, 6.0, 6.0], [0, 3, 1]), "mean", 3.0, NAN, 2.66666667),
    ("zero-count-denominator", "OpenRLHF/583", ([0.0, 4.0], [0, 2]), "mean", 2.0, NAN, None),
    ("zero-count-denominator", "mcore-bridge/104", ([0.0], [0]), "mean", 0.0, NAN, None),
    (
        "norm-of-unreduced-partials",
        "pytorch/159856",
        ([[1.0, 3.0], [2.0, 1.0]], 9),
        "norm",
        5.0,
        5.39834564,
        3.87298335,
    ),
    ("norm-of-unreduced-partials", "Automodel/3477", ([[3.0, 0.0], [-3.0, 4.0]], 2), "norm", 4.0, None, 5.83095189),
    ("norm-of-unreduced-partials", "Automodel/3477", ([[3.0, 0.0], [-3.0, 4.0]], 2), "values", [0.0, 2.0], None, None),
    (
        "uneven-shard-average",
        "pytorch/162692",
        ([[float(each) for each in range(8)], [8.0, 9.0, 10.0, 11.0]], [8, 4], "mean"),
        "",
        5.5,
        6.5,
        None,
    ),
    ("uneven-shard-average", "pytorch/162692", ([[1.0, 3.0], []], [2, 0], "mean"), "", 2.0, NAN, None),
    ("uneven-shard-average", "pytorch/36382", ([[1.0, 1.0, 1.0], [5.0]], [3, 1], "mean"), "", 2.0, 3.0, None),
    ("uneven-shard-average", "stale padding", ([[3, 4, 0, 9]], [2], "norm"), "", 5.0, 10.29563014, 10.29563014),
    ("inf-norm-branch", "torchrec/3199", ([[3.0, -7.0], [2.0, 1.0]], "inf", 3.5), "norm", 7.0, 1.0, 1.0),
    ("inf-norm-branch", "torchrec/3199", ([[3.0, -7.0], [2.0, 1.0]], "inf", 3.5), "factor", 0.5, 1.0, 1.0),
    ("inf-norm-branch", "torchtitan/649", ([[3.0], [8.0]], INF, 1.0), "norm", 8.0, 1.0, 11.0),
    ("limit-domain", "pytorch/31367", ([3.0, 4.0], -1.0), "values", ValueError, [-0.6, -0.8], None),
    ("limit-domain", "torchtitan/4295", ([3.0, 4.0], 0.0), "values", [0.0, 0.0], None, [3.0, 4.0]),
    ("limit-domain", "robots/2028", ([3.0, 4.0], -0.5), "values", ValueError, [-0.3, -0.4], None),
    ("limit-domain", "robots/2028", ([3.0, 4.0], NAN), "values", ValueError, [NAN, NAN], None),
    ("limit-domain", "robots/2028", ([3.0, 4.0], INF), "values", [3.0, 4.0], None, None),
    ("coefficient-formula", "optax/1752", ([0.0, 0.0], 0.0), "values", [0.0, 0.0], [NAN, NAN], None),
    ("coefficient-formula", "Paddle/32038", ([0.0, 0.0], 1.0), "values", [0.0, 0.0], [NAN, NAN], None),
    (
        "coefficient-formula",
        "an epsilon of 1e-6",
        ([0.006, 0.008], 0.01),
        "values",
        [0.006, 0.008],
        None,
        [0.0059994, 0.0079992],
    ),
    ("optimizer-side-limit", "opacus/420", (PER_SAMPLE, ONE_LAYER, 4), "update.0", [0.15, 0.325], [0.3, 0.65], None),
    ("optimizer-side-limit", "opacus/202", ([[[1.0]] * 8], EIGHT, 1), "bound", 2.82842712, 1.0, 1.0),
    (
        "optimizer-side-limit",
        "a layer that is orthogonalised",
        ([[[0.6, 0.8], [30.0, 40.0]]], MUON, 1),
        "update.0",
        [0.6, 0.8],
        [0.0119976, 0.0159968],
        None,
    ),
]


def at(path, result):
    """The part of a result that a report gives: keys and indexes, `*` for every item."""
    for step in filter(None, path.split(".")):
        if step == "*":
            continue
        many = isinstance(result, list) and not step.isdigit()
        result = [each[step] for each in result] if many else result[int(step) if step.isdigit() else step]
    return result


def close(seen, told):
    """Whether a result is what a report gives, which is rounded to eight digits or fewer."""
    if isinstance(told, list):
        return isinstance(seen, list) and len(seen) == len(told) and all(map(close, seen, told))
    if isinstance(told, str | bool) or told is None:
        return seen == told and type(seen) is type(told)
    if math.isnan(told):
        return math.isnan(seen)
    # 1.2e-07 is reported with two digits.
    return math.isclose(seen, told, rel_tol=1e-2 if told == 1.2e-07 else 1e-7)


def outcome(path, arguments, where):
    try:
        return at(where, function_of(path, "solve")(*arguments))
    except Exception as error:
        return type(error)


def meets(seen, told):
    return seen is told if isinstance(told, type) else not isinstance(seen, type) and close(seen, told)


@pytest.mark.parametrize(("slug", "report", "arguments", "where", "right", "failing", "unsuccessful"), REPORTS)
def test_the_wrong_numbers_of_a_report_come_out(slug, report, arguments, where, right, failing, unsuccessful):
    mechanism = MECHANISMS[slug]
    for role, told in (("failing", failing), ("unsuccessful", unsuccessful)):
        seen = outcome(mechanism.folder / f"{role}.py", arguments, where)
        assert told is None or meets(seen, told), (report, role, seen)
    if member := member_of(slug, members_folder()):
        assert meets(outcome(member.repair, arguments, where), right), report


def test_a_run_that_is_never_stopped_says_so():
    steps = [[[1.0]], [[NAN]], [[1.0]]]
    solve = function_of(MECHANISMS["nonfinite-norm-policy"].folder / "failing.py", "solve")
    assert solve(steps, 1.0, "float32", 10)["stopped_before"] is None


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (5.1, 5.0),
        (math.nan, 5.0),
        (5.0, math.nan),
        ([5.0], [5.0, 5.0]),
        (ValueError, 5.0),
        (5.0, ValueError),
        (TypeError, ValueError),
        (1, True),
        ("hang", "returned"),
    ],
)
def test_the_judge_of_reports_rejects(seen, told):
    assert not meets(seen, told)


def test_every_mechanism_has_a_report():
    assert {report[0] for report in REPORTS} == set(MECHANISMS)


@pytest.mark.parametrize("slug", MECHANISMS)
def test_the_role_rules_hold_for_many_variants(slug):
    mechanism, member = MECHANISMS[slug], member_of(slug, members_folder())
    assert set(sources(mechanism, member)) >= {"failing", "unsuccessful"}
    for n in (*range(1, 13), 96, 97, 250, 999, 1000):
        assert try_variant(mechanism, n, member) == [], n


@pytest.mark.parametrize("slug", MECHANISMS)
def test_only_checks_that_say_so_are_blind(slug):
    folder = MECHANISMS[slug].folder
    solves = [function_of(folder / f"{role}.py", "solve") for role in ("failing", "unsuccessful")]
    for n in range(1, 13):
        checks = checks_of(folder / "checks.py", n)
        passed = [[row.passed for row in observe(solve, checks)] for solve in solves]
        for check, *both in zip(checks, *passed, strict=True):
            assert all(both) == check.label.endswith("cannot reveal the error"), (n, check.label)
