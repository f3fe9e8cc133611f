"""The wrong numbers of public reports about accumulation, weighting and ordering come out of our wrong programs."""

import math

import pytest

from shardproof.failures.mechanism import (
    Mechanism,
    folders_named,
    function_of,
    load_mechanism,
    member_of,
    members_folder,
)
from shardproof.failures.roles import sources, try_variant

NAN, INF = math.nan, math.inf
FAMILIES = ("accumulation-and-weighting", "ordering")
MECHANISMS = {folder.name: load_mechanism(folder) for folder in folders_named(FAMILIES)}


def parts(sums, counts, rows=None):
    rows = rows or [1] * len(sums)
    return [{"sum": s, "count": c, "rows": r} for s, c, r in zip(sums, counts, rows, strict=True)]


def micro(sums, counts, rows=None, loss="counted"):
    return {"loss": loss, "ranks": [parts(sums, counts, rows)]}


def ranks(sums, counts):
    return {"loss": "counted", "ranks": [[part] for part in parts(sums, counts)]}


def divide(loss, dividers, sums, counts):
    return {"micro": parts(sums, counts), "loss": loss, "dividers": dividers}


def window(every, sums, counts, counted_over=None):
    return {"micro": parts(sums, counts), "every": every, "counted_over": counted_over or every}


def calls(every, factor, *windows):
    return {
        "windows": [[[v] if isinstance(v, float) else v for v in w] for w in windows],
        "every": every,
        "factor": factor,
    }


def clip(how, limit, *gradients, buffer="grad"):
    return {"ranks": [list(gradients)], "accumulate": how, "buffer": buffer, "reduce": "sum", "limit": limit}


def reduced(how, limit, *local):
    return {"ranks": [[g] for g in local], "accumulate": "sum", "buffer": "grad", "reduce": how, "limit": limit}


def scaled(true, scale, limit, grows=False):
    return {"stored": [v * scale for v in true], "scale": scale, "grows": grows, "limit": limit}


def tensors(options, *pairs, given="list", step="after"):
    held = [{"grad": grad, "main": main} for grad, main in pairs]
    return {"tensors": held, "given": given, "options": options, "step": step}


THREE_FOUR = (([3.0], None), ([4.0], None))
# slug, where it was reported, the arguments, the right result, and what the failing and the unsuccessful program give;
# None: the report says nothing that this program must show.
REPORTS = [
    ("microbatch-mean-of-means", "meta-pytorch/torchtune/pull/1875", micro([2, 12], [1, 3]), 3.5, 3.0, None),
    (
        "microbatch-mean-of-means",
        "huggingface/transformers/pull/34191",
        micro([10, 2], [5, 2], loss="mean"),
        1.71428571,
        1.5,
        3.0,
    ),
    ("microbatch-mean-of-means", "verl-project/verl/issues/5625", micro([6, 6], [2, 6], [2, 2]), 1.5, 2.0, None),
    ("microbatch-mean-of-means", "allenai/open-instruct/pull/1736", micro([9, 1], [3, 1]), 2.5, 2.0, None),
    ("microbatch-mean-of-means", "PrimeIntellect-ai/prime-rl/pull/583", micro([3, 5], [1, 5]), 1.33333333, 2.0, None),
    ("rank-mean-of-means", "huggingface/transformers/pull/34373", ranks([6, 6], [3, 1]), 3.0, 4.0, 8.0),
    ("rank-mean-of-means", "pytorch/pytorch/issues/31579", ranks([0, 9], [1, 9]), 0.9, 0.5, None),
    ("rank-mean-of-means", "mosaicml/composer/pull/3273", ranks([12, 3], [4, 3]), 2.14285714, 2.0, None),
    ("rank-mean-of-means", "keras-team/keras/issues/20241", ranks([4, 2], [4, 1]), 1.2, 1.5, None),
    (
        "accumulation-divisor-count",
        "huggingface/accelerate/issues/3533",
        divide("mean", ["trainer", "engine"], [2, 4, 6, 8], [1] * 4),
        5.0,
        1.25,
        None,
    ),
    (
        "accumulation-divisor-count",
        "modelscope/ms-swift/issues/10117",
        divide("counted", ["trainer"], [3] * 4, [1, 1, 2, 2]),
        2.0,
        0.5,
        None,
    ),
    (
        "accumulation-divisor-count",
        "areal-project/AReaL/pull/1273",
        divide("counted", ["schedule"], [6, 12, 18], [2, 2, 2]),
        6.0,
        2.0,
        None,
    ),
    (
        "accumulation-divisor-count",
        "huggingface/transformers/pull/35808",
        divide("counted", ["engine"], [1] * 8, [1] * 8),
        1.0,
        0.125,
        None,
    ),
    (
        "accumulation-divisor-count",
        "huggingface/transformers/pull/35808",
        divide("mean", ["engine"], [1] * 8, [1] * 8),
        1.0,
        None,
        8.0,
    ),
    (
        "accumulation-divisor-count",
        "deepspeedai/DeepSpeed/issues/7773",
        divide("mean", [], [8] * 4, [8] * 4),
        1.0,
        4.0,
        None,
    ),
    (
        "accumulation-divisor-count",
        "deepspeedai/DeepSpeed/issues/7773",
        divide("mean", [], [2] * 16, [2] * 16),
        1.0,
        16.0,
        None,
    ),
    (
        "accumulation-divisor-count",
        "unslothai/unsloth-zoo/pull/1023",
        divide("counted", ["trainer"], [2, 12], [1, 3]),
        3.5,
        1.75,
        3.0,
    ),
    ("accumulation-window-length", "huggingface/transformers/pull/39659", window(2, [6], [1]), [6.0], None, [3.0]),
    ("accumulation-window-length", "tracel-ai/burn/issues/5695", window(4, [1, 1, 1], [1, 1, 1]), [1.0], [], None),
    (
        "accumulation-window-length",
        "huggingface/trl/pull/6024",
        window(2, [4, 8, 6, 6], [2, 4, 3, 3], 4),
        [2.0, 2.0],
        [1.0, 1.0],
        None,
    ),
    (
        "accumulation-window-length",
        "PrimeIntellect-ai/prime-rl/pull/1961",
        window(2, [6, NAN], [3, 3]),
        [2.0],
        [1.0],
        None,
    ),
    (
        "running-accumulator-rescaled",
        "pytorch/torchtitan/issues/1733",
        calls(3, 0.5, [8.0, 8.0, 8.0]),
        [[12.0]],
        [[7.0]],
        None,
    ),
    ("running-accumulator-rescaled", "NVIDIA/Megatron-LM/pull/6773", calls(2, 0.5, [4.0, 4.0]), [[4.0]], [[3.0]], None),
    (
        "accumulated-grad-lost-or-carried",
        "deepspeedai/DeepSpeed/pull/7967",
        calls(4, 0.25, [2.0, 4.0, 6.0, 8.0]),
        [[5.0]],
        [[0.5]],
        None,
    ),
    (
        "accumulated-grad-lost-or-carried",
        "deepspeedai/DeepSpeed/pull/7981",
        calls(1, 1, [1.0, 2.0, 3.0]),
        [[6.0]],
        [[3.0]],
        [[3.0]],
    ),
    (
        "accumulated-grad-lost-or-carried",
        "allenai/open-instruct/pull/1498",
        calls(1, 1, [5.0, -1.0, 2.0]),
        [[6.0]],
        [[2.0]],
        None,
    ),
    (
        "accumulated-grad-lost-or-carried",
        "pytorch/pytorch/issues/73784",
        calls(1, 1, [[1.0, 1.0], [2.0, 0.0]]),
        [[3.0, 1.0]],
        [[2.0, 0.0]],
        None,
    ),
    (
        "accumulated-grad-lost-or-carried",
        "espnet/espnet/pull/3283",
        calls(2, 0.5, [1.0, NAN], [2.0, 4.0]),
        ["skip", [3.0]],
        None,
        ["skip", [NAN]],
    ),
    ("clip-before-reduce", "horovod/horovod/issues/1346", reduced("mean", 5, [6, 8], [0, 0]), [3, 4], [1.5, 2.0], None),
    (
        "clip-before-reduce",
        "tensorflow/tensorflow/issues/33929",
        reduced("mean", 3, [9, 0], [0, 12]),
        [1.8, 2.4],
        [1.5, 1.5],
        [4.5, 6.0],
    ),
    (
        "clip-per-microbatch",
        "huggingface/transformers/issues/1563",
        clip("sum", 5, [6, 8], [-3, -4]),
        [3, 4],
        [0, 0],
        None,
    ),
    (
        "clip-per-microbatch",
        "facebookresearch/lingua/pull/59",
        clip("sum", 5, [6, 0], [0, 8]),
        [3, 4],
        [2.6499947, 4.23999152],
        None,
    ),
    (
        "clip-per-microbatch",
        "keras-team/keras/pull/19998",
        clip("mean", 5, [6, 8], [-6, 8], buffer="apart"),
        [0, 5],
        [0, 4],
        None,
    ),
    (
        "clip-on-scaled-grads",
        "Lightning-AI/pytorch-lightning/issues/9694",
        scaled([3, 4], 1024, 2.5),
        [1.5, 2.0],
        [0.00146484, 0.00195312],
        None,
    ),
    ("clip-on-scaled-grads", "NVIDIA/apex/pull/1512", scaled([6, 8], 16, 5), [3, 4], [0.1875, 0.25], None),
    ("clip-on-scaled-grads", "deepspeedai/DeepSpeed/pull/8588", scaled([1], 4, None, grows=True), [1.0], None, [0.5]),
    (
        "clip-without-effect",
        "pytorch/torchtitan/pull/1258",
        tensors({"max_norm": 1}, *THREE_FOUR, given="iterator"),
        (5.0, [[0.6], [0.8]]),
        (5.0, [[3], [4]]),
        None,
    ),
    (
        "clip-without-effect",
        "deepspeedai/DeepSpeed/pull/7302",
        tensors({}, ([6, 8], [3, 4])),
        (5.0, [[3, 4]]),
        (10.0, [[3, 4]]),
        None,
    ),
    (
        "clip-without-effect",
        "anthonytorlucci/rlevo/issues/183",
        tensors({"clip_norm": 0.5}, *THREE_FOUR),
        (5.0, [[0.3], [0.4]]),
        (5.0, [[3], [4]]),
        (5.0, [[0.5], [0.5]]),
    ),
]


def given(mechanism: Mechanism, role: str, run: dict) -> object:
    """What a program gives, without what the reports say nothing about."""
    member = member_of(mechanism.slug, members_folder())
    result = function_of(sources(mechanism, member)[role], "solve")(run)
    if mechanism.says.contract == "clip-unscaled":
        return result["step"]
    return (result["norm"], result["stepped"]) if mechanism.says.contract == "clip-stepped" else result


def near(actual, reported) -> bool:
    """Equal to the eight decimals that reports are given with; NaN is near NaN."""
    if isinstance(reported, list | tuple):
        return isinstance(actual, list | tuple) and len(actual) == len(reported) and all(map(near, actual, reported))
    if isinstance(reported, str) or isinstance(actual, str):
        return actual == reported
    return (math.isnan(actual) and math.isnan(reported)) or abs(actual - reported) <= 5e-9 + 1e-14


@pytest.mark.parametrize(("slug", "report", "run", "right", "failing", "unsuccessful"), REPORTS)
def test_the_numbers_of_the_report_come_out(slug, report, run, right, failing, unsuccessful):
    mechanism = MECHANISMS[slug]
    assert f"https://github.com/{report}" in [str(reference.url) for reference in mechanism.says.references]
    wrong = {"failing": failing, "unsuccessful": unsuccessful}
    for role, reported in wrong.items():
        if reported is not None:
            assert not near(reported, right)
            assert near(given(mechanism, role, run), reported), role
    if member_of(slug, members_folder()) is not None:
        assert near(given(mechanism, "repair", run), right)


def test_another_number_is_not_near():
    assert near([1.71428571, [math.nan]], [1.714285714286, [math.nan]])
    assert not near([1.7142857], [1.71428572])
    assert not near([], [1.0])
    assert not near(["skip"], [1.0])
    assert not near([math.nan], [3.0])


@pytest.mark.parametrize("slug", sorted(MECHANISMS))
def test_role_rules_hold_for_many_variants(slug):
    mechanism = MECHANISMS[slug]
    member = member_of(slug, members_folder())
    assert [try_variant(mechanism, n, member) for n in (1, 2, 3, 4, 5, 6, 7, 97, 98, 360, 999, 1000)] == [[]] * 12


def test_both_families_are_whole():
    assert sorted(MECHANISMS) == sorted({row[0] for row in REPORTS})
    assert len(MECHANISMS) == 10
