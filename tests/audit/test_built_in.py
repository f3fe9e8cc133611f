"""The built-in subjects call the real libraries; what is missing or out of a subject's scope is a skip, and said."""

import importlib.util
import math
from pathlib import Path

import pytest

from shardproof.audit.layouts import LAYOUTS, named
from shardproof.audit.orders import norm_of_order
from shardproof.audit.run import one_cell, plan_of
from shardproof.audit.subjects import BUILT_IN, Capabilities, declared, missing, outside, parse
from shardproof.audit.subjects.loading import loaded
from shardproof.cli.audit_run import SUBJECT_HELP
from shardproof.errors import InvalidTypeError, InvalidValueError

pytest.importorskip("torch", reason="ranks need torch")

HERE = Path(__file__).parent / "subjects"
JAX = f"jax:{HERE / 'jax_clips.py'}"


def needs(subject):
    lacking = missing(subject)
    return pytest.mark.skipif(lacking is not None, reason=str(lacking))


def cell(spec, layout, timeout_s=2.0, **options):
    return one_cell(spec, LAYOUTS[layout], timeout_s=timeout_s, **options)


EXPECTED = [
    ("torch-total-norm", "ddp", "pass"),
    ("torch-total-norm", "hand-sharded", "fail"),
    ("fsdp1", "fsdp1", "pass"),
    ("accelerate", "fsdp1", "pass"),
    ("accelerate", "pipeline", "fail"),
    ("fabric", "fsdp1", "pass"),
    ("fabric", "hand-sharded", "fail"),
    ("deepspeed", "ddp", "pass"),
    ("deepspeed", "hand-sharded", "fail"),
    ("optax", "ddp", "pass"),
    ("optax-shard-map", "hand-sharded", "fail"),
]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("subject", "layout", "word"), [pytest.param(*each, marks=needs(each[0])) for each in EXPECTED]
)
def test_the_real_library_is_judged(subject, layout, word):
    judged = cell(subject, layout)
    assert judged.verdict == word, judged.reason


def test_every_built_in_subject_is_named_in_the_help_and_can_be_planned():
    for name, subject in BUILT_IN.items():
        assert name in SUBJECT_HELP
        assert parse(name).framework == subject.framework
        module = subject.clip.partition(":")[0]
        assert importlib.util.find_spec(module) is not None


def test_a_missing_package_is_a_skip_with_the_line_that_installs_it(monkeypatch):
    from shardproof.audit.subjects import built_in

    monkeypatch.setattr(built_in.importlib.util, "find_spec", lambda name: None)
    judged = cell("deepspeed", "one-rank")
    assert judged.verdict == "skip"
    assert "pip install 'shardproof[torch]' deepspeed" in judged.reason


def test_a_layout_that_a_subject_is_not_made_for_is_a_skip_before_any_rank_starts():
    judged = cell("fsdp1", "one-rank")
    assert (judged.verdict, judged.reason) == ("skip", "made for the layouts fsdp1* only")


ENGINE = """
import torch

class Engine:
    capabilities = {"axes": ["tp"], "dtypes": ("float32",), "norm_types": [2.0, "inf"], "world_sizes": (2,)}

    def build(self, ctx):
        self.built = ctx.layout

    def clip(self, params, max_norm, ctx):
        from shardproof.audit.subjects.torch_clips import shardproof
        assert self.built == ctx.layout
        return shardproof(params, max_norm, ctx)

class Unbuildable(Engine):
    def build(self, ctx):
        raise RuntimeError("no engine today")

made = Engine()
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "layout", "word", "text"),
    [
        ("Engine", "hand-sharded", "pass", ""),
        ("made", "hand-sharded", "pass", ""),
        ("Engine", "ddp", "skip", "made for the axes tp only, not dp"),
        ("Engine", "mixed-dtypes", "skip", "made for the dtypes float32 only, not bfloat16"),
        ("Unbuildable", "hand-sharded", "error", "no engine today"),
    ],
)
def test_an_engine_is_built_and_called_where_it_says_it_works(tmp_path, name, layout, word, text):
    (tmp_path / "engine.py").write_text(ENGINE)
    judged = cell(f"{tmp_path / 'engine.py'}:{name}", layout)
    assert judged.verdict == word, judged.reason
    assert text in judged.reason


@pytest.mark.processes
@pytest.mark.parametrize("order", [1.0, 3.0, math.inf])
def test_other_orders_of_the_norm_are_asked_for_and_judged(order):
    assert cell("shardproof", "hand-sharded", norm_type=order).verdict == "pass"
    wrong = cell(f"{HERE / 'wrong.py'}:local_norm", "hand-sharded", norm_type=order)
    assert wrong.verdict == "fail", "a clip by the local 2-norm"


@pytest.mark.parametrize("order", [0.0, -1.0, math.nan])
def test_an_order_that_is_none_is_refused(order):
    with pytest.raises(InvalidValueError, match="order of a norm"):
        plan_of(["shardproof"], named(["ddp"]), timeout_s=1.0, norm_type=order)


def test_norms_of_every_order_survive_large_values():
    values = [3e300, -4e300]
    assert norm_of_order(values) == 5e300
    assert norm_of_order(values, math.inf) == 4e300
    assert math.isclose(norm_of_order(values, 3.0), 91 ** (1 / 3) * 1e300, rel_tol=1e-15)
    assert norm_of_order([], 3.0) == norm_of_order([0.0], 1.0) == 0.0


@pytest.mark.parametrize("capabilities", [{"axis": ["tp"]}, {"axes": "tp"}, {"world_sizes": 2}, ["tp"], 3])
def test_capabilities_that_say_nothing_are_refused(capabilities):
    class Engine:
        pass

    Engine.capabilities = capabilities
    with pytest.raises(InvalidTypeError, match="capabilities"):
        declared(Engine())


def test_what_is_neither_callable_nor_an_engine_is_refused():
    with pytest.raises(InvalidTypeError, match="method `clip`"):
        loaded(3)


def test_world_sizes_and_norm_orders_are_capabilities():
    layout = LAYOUTS["ddp"]
    assert outside(Capabilities(world_sizes=(4,)), layout) == "made for the world sizes 4 only, not 2"
    assert outside(Capabilities(norm_types=(2.0,)), layout, math.inf) == "made for the norm orders 2 only, not inf"
    assert outside(Capabilities(), layout, math.inf) is None


@pytest.mark.processes
@needs("optax")
@pytest.mark.parametrize(
    ("name", "layout", "word"),
    [
        ("right", "pipeline-tied", "pass"),
        ("right", "zero-flat", "pass"),
        ("right", "ep-idle", "pass"),
        ("counts_copies", "ddp", "fail"),
        ("changes_dtype", "one-rank", "fail"),
        ("raises", "one-rank", "error"),
    ],
)
def test_a_clip_of_jax_is_traced_under_shard_map_and_judged(name, layout, word):
    judged = cell(f"{JAX}:{name}", layout)
    assert judged.verdict == word, judged.reason
