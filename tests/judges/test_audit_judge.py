"""The audit is a judge: each wrong clip must fail, in the clause that its mistake breaks; right ones must pass."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the audit's ranks need torch")

from shardproof.audit.grade import grade
from shardproof.audit.layouts import named
from shardproof.audit.ranks import observe_cell
from shardproof.audit.run import plan_of
from shardproof.records.audit import CellObservation

pytestmark = pytest.mark.processes

SUBJECTS = Path(__file__).parent.parent / "audit" / "subjects"

SCALING = {"scale.one-factor"}
FAILS = [
    ("local_norm", "hand-sharded", {"norm.global", "norm.same-on-ranks", "scale.one-factor", "copies.equal"}),
    ("local_norm", "pipeline", {"norm.global", "norm.same-on-ranks", "scale.one-factor"}),
    ("sum_of_norms", "hand-sharded", {"norm.global", "scale.one-factor", "scale.under-limit"}),
    ("sum_of_norms", "pipeline", {"norm.global", "scale.one-factor", "scale.under-limit"}),
    ("copies_counted_each_time", "hand-sharded", {"norm.global", "scale.one-factor", "scale.under-limit"}),
    ("copies_counted_each_time", "ddp", {"norm.global", "scale.one-factor", "scale.under-limit"}),
    ("copies_counted_each_time", "hsdp", {"norm.global", "scale.one-factor", "scale.under-limit"}),
    ("copies_counted_each_time", "fsdp2-tp", {"norm.global", "scale.one-factor", "scale.under-limit"}),
    ("largest_local_norm", "fsdp2", {"norm.global", "scale.one-factor"}),
    ("only_on_rank_0", "hand-sharded", {*SCALING, "copies.equal"}),
    ("only_on_rank_0", "pipeline", SCALING),
    ("norm_wrong_scaling_right", "hand-sharded", {"norm.global"}),
    ("norm_wrong_on_rank_1", "hand-sharded", {"norm.global", "norm.same-on-ranks"}),
    ("scaling_skipped", "hand-sharded", SCALING),
    ("always_scales", "hand-sharded", {"scale.under-limit"}),
    ("divides_by_zero_norm", "one-rank", {"zero.gradient"}),
    ("copies_drift", "hand-sharded", {"copies.equal"}),
    ("partial_norm", "fsdp2", {"norm.plain-number"}),
    ("returns_none", "one-rank", {"norm.plain-number"}),
    ("returns_text", "one-rank", {"norm.plain-number"}),
    ("returns_huge_object", "one-rank", {"norm.plain-number"}),
    ("float_raises", "one-rank", {"norm.plain-number"}),
    ("returns_nan", "hand-sharded", {"norm.global", "norm.same-on-ranks", "zero.gradient"}),
    ("drops_gradients", "one-rank", {"scale.one-factor", "scale.under-limit", "zero.gradient"}),
]

PASSES = [
    ("two_arguments", "one-rank"),
    ("keyword_only", "ddp"),
    ("of_model", "fsdp2"),
    *[("by_hand", layout) for layout in ("hand-sharded", "ddp", "fsdp2", "hsdp", "fsdp2-tp", "pipeline")],
    ("with_epsilon", "hand-sharded"),
    ("with_epsilon", "fsdp2-tp"),
    ("new_tensors", "fsdp2"),
    ("new_tensors", "pipeline"),
    ("detaches", "mixed-dtypes"),
    ("chatty", "hand-sharded"),
    ("forks", "hand-sharded"),
]


def verdict_on(spec, layout, profile="core"):
    """Run control and subject under one layout and grade what was seen, without a folder in between."""
    plan = plan_of([spec], named([layout]), timeout_s=3.0)
    specs = {"control": "control", plan.subjects[0].name: plan.subjects[0].spec}
    seen = []
    for cell in plan.cells:
        outcome = observe_cell(named([layout])[0], plan.layouts[0].fixtures, specs[cell.subject], plan.timeout_s)
        seen.append(
            CellObservation(
                plan_sha256="0" * 64,
                cell=cell.id,
                status=outcome.status,
                note=outcome.note,
                started="",
                seconds=0.0,
                ranks=outcome.ranks,
            )
        )
    control, subject = grade(plan, "0" * 64, seen, profile=profile).cells
    assert control.verdict == "pass", control.reason
    return subject


@pytest.mark.parametrize(("name", "layout", "clauses"), FAILS)
def test_a_wrong_clip_fails_in_the_clause_it_breaks(name, layout, clauses):
    cell = verdict_on(f"{SUBJECTS / 'wrong.py'}:{name}", layout)

    violated = {each.clause for each in cell.clauses if each.outcome == "violated" and each.profile == "core"}
    assert (cell.verdict, violated) == ("fail", clauses)
    assert all(clause in cell.reason for clause in clauses)


@pytest.mark.parametrize(("name", "layout"), PASSES)
def test_a_right_clip_passes_in_another_style(name, layout):
    cell = verdict_on(f"{SUBJECTS / 'right.py'}:{name}", layout)

    assert cell.verdict == "pass", cell.reason


STRICT = [
    ("wrong.py:no_limit_at_zero", "hand-sharded", "zero.limit"),
    ("right.py:with_epsilon", "hand-sharded", "bits.elements"),
    ("right.py:with_epsilon", "hand-sharded", "bits.under-limit"),
]


@pytest.mark.parametrize(("name", "layout", "clause"), STRICT)
def test_what_core_admits_fails_strict_in_its_clause(name, layout, clause):
    core, strict = (verdict_on(f"{SUBJECTS}/{name}", layout, profile) for profile in ("core", "strict"))

    assert core.verdict == "pass", core.reason
    assert strict.verdict == "fail"
    for cell in (core, strict):
        assert next(each for each in cell.clauses if each.clause == clause).outcome == "violated"


def test_a_failure_says_expected_and_returned_norm_on_each_rank_and_their_ratio():
    cell = verdict_on(f"{SUBJECTS / 'wrong.py'}:local_norm", "pipeline")
    row = cell.norms[0]

    assert row.fixture == "over"
    assert row.expected_norm == 13.0
    assert row.returned == pytest.approx((90**0.5, 79**0.5), rel=1e-6)
    assert row.ratio == pytest.approx((90**0.5 / 13, 79**0.5 / 13), rel=1e-6)
    assert row.factor == pytest.approx((6.5 / 90**0.5, 6.5 / 79**0.5), rel=1e-5)
    assert row.expected_factor == 0.5
    first = next(each.first for each in cell.clauses if each.clause == "scale.one-factor")
    assert (first.rank, first.tensor, first.index, first.expected) == (0, "stage0.layer.weight", 0, 0.5)


def test_the_control_answers_no_subject():
    """It is told the gradient only while it is run itself."""
    cell = verdict_on(f"{SUBJECTS / 'wrong.py'}:asks_the_control", "hand-sharded")

    assert cell.verdict == "fail", cell.reason
