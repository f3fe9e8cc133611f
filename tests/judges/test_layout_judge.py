"""The layouts are judges: each mistake is caught by the layouts that are there for it, and right code passes on all."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the audit's ranks need torch")

from shardproof.audit.grade import grade
from shardproof.audit.layouts import LAYOUTS, named
from shardproof.audit.ranks import observe_cell
from shardproof.audit.run import plan_of
from shardproof.records.audit import CellObservation

pytestmark = pytest.mark.processes

SUBJECTS = Path(__file__).parent.parent / "audit" / "subjects"
WRONG = SUBJECTS / "wrong_on_layouts.py"

CAUGHT = [
    ("padding_counted", ["zero-flat", "zero-flat-uneven", "zero-flat-replicas"], "norm.global"),
    ("tied_counted_each_time", ["pipeline-tied", "pipeline-v", "pipeline-dp-tp", "megatron"], "norm.global"),
    ("equal_names_taken_for_copies", ["pipeline", "pipeline-fsdp2", "ep", "ep-tp", "megatron-moe"], "norm.global"),
    ("sums_over_the_first_axis", ["hsdp", "fsdp2-tp", "pipeline-dp-tp", "ep-tp-dp"], "norm.global"),
    ("sums_over_the_last_axis", ["fsdp2-tp", "hsdp-tp", "pipeline-dp-tp", "ep-tp", "ep-dp"], "norm.global"),
    ("trusts_dtensors", ["fsdp2-tp", "fsdp2-tp-meshes", "hsdp-tp", "cp-tp", "ep-fsdp2"], "norm.global"),
    ("returns_early_without_gradients", ["pipeline-no-gradients", "pipeline-empty-rank"], "hang"),
    ("needs_every_gradient", ["ep-idle", "shards-no-gradients"], "error"),
    ("makes_gradients_up", ["ep-idle"], "scale.one-factor"),
    ("scales_one_of_the_ties", ["pipeline-v", "pipeline-tied"], "copies.equal"),
]
PASSES = [
    ("padding_counted", "fsdp2-tp", "fsdp1-flat"),
    ("tied_counted_each_time", "pipeline-dp"),
    ("equal_names_taken_for_copies", "fsdp2-tp"),
    ("trusts_dtensors", "hsdp", "pipeline-fsdp2"),
    ("returns_early_without_gradients", "empty-slices"),
    ("needs_every_gradient", "ep"),
]


def verdicts(specs, name, timeout_s=3.0):
    """Run control and subjects under one layout and grade what was seen; the subjects' cells."""
    plan = plan_of(specs, named([name]), timeout_s=timeout_s)
    spec_of = {"control": "control"} | {subject.name: subject.spec for subject in plan.subjects}
    seen = []
    for cell in plan.cells:
        outcome = observe_cell(LAYOUTS[name], plan.layouts[0].fixtures, spec_of[cell.subject], timeout_s)
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
    control, *subjects = grade(plan, "0" * 64, seen).cells
    assert control.verdict == "pass", control.reason
    return subjects


def violated(cell):
    return {clause.clause for clause in cell.clauses if clause.outcome == "violated"}


@pytest.mark.parametrize(
    ("mistake", "name", "found"), [(mistake, name, found) for mistake, names, found in CAUGHT for name in names]
)
def test_a_mistake_is_caught_by_the_layouts_that_are_there_for_it(mistake, name, found):
    cell = verdicts([f"{WRONG}:{mistake}"], name, timeout_s=1.5)[0]

    if found in ("hang", "error"):
        assert cell.verdict == found, cell.reason
    else:
        assert cell.verdict == "fail", cell.reason
        assert found in violated(cell)


@pytest.mark.parametrize(("mistake", "name"), [(mistake, name) for mistake, *names in PASSES for name in names])
def test_the_same_mistake_is_none_elsewhere(mistake, name):
    cell = verdicts([f"{WRONG}:{mistake}"], name)[0]

    assert cell.verdict == "pass", cell.reason


@pytest.mark.parametrize("name", LAYOUTS)
def test_right_clips_pass_every_layout(name):
    """An all-reduce written by hand, and shardproof, which also keeps what the strict profile asks for."""
    by_hand, ours = verdicts([f"{SUBJECTS / 'right.py'}:by_hand", "shardproof"], name, timeout_s=5.0)

    assert by_hand.verdict == "pass", by_hand.reason
    assert ours.verdict == "pass", ours.reason
    assert violated(ours) == set()
