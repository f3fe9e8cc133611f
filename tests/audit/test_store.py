"""A stored run: it survives its harness, refuses what does not fit, and is graded from its files only."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shardproof.audit import store
from shardproof.audit.environment import environment
from shardproof.audit.layouts import named
from shardproof.audit.run import begin, believed, go_on, plan_of, regrade
from shardproof.errors import InvalidValueError


@pytest.fixture
def folder(tmp_path, plan, right_cell):
    """A stored run in which every cell was right."""
    run = tmp_path / "run"
    digest = store.begin(run, plan, environment())
    for cell in plan.cells:
        store.append(run, right_cell(plan, cell.id, digest))
    return run


def test_a_run_is_graded_from_its_files_only(folder):
    assert regrade(folder).word == "held"
    assert store.read_report(folder).verdict.exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "env.json", "observations.jsonl", "plan.json", "verdict.json"
    ]  # fmt: skip


def test_floats_that_json_cannot_carry_are_strings(folder):
    path = folder / store.OBSERVATIONS
    lines = path.read_text().splitlines(keepends=True)
    line = json.loads(lines[1])
    line["ranks"][0]["calls"][0]["returned"]["number"] = "nan"
    path.write_text("".join([lines[0], json.dumps(line) + "\n", *lines[2:]]))

    verdict = regrade(folder)

    assert verdict.word == "violated"
    assert '"observed":"nan"' in verdict.model_dump_json()
    json.loads((folder / store.VERDICT).read_text(), parse_constant=lambda name: pytest.fail(f"bare {name}"))


def test_a_line_that_was_cut_off_is_left_out_and_said(folder):
    path = folder / store.OBSERVATIONS
    path.write_bytes(path.read_bytes()[:-100])
    verdict = regrade(folder)

    assert (verdict.word, verdict.counts) == ("could not tell", {"pass": 1, "not run": 1})
    assert "cut off" in verdict.notes[0]


@pytest.mark.parametrize("tamper", ["plan", "twice", "foreign", "garbage", "schema", "extra"])
def test_what_does_not_hold_together_is_refused(folder, tamper):
    path = folder / store.OBSERVATIONS
    lines = path.read_text().splitlines(keepends=True)
    line = json.loads(lines[0])
    if tamper == "plan":
        (folder / store.PLAN).write_text(
            (folder / store.PLAN).read_text().replace('"timeout_s": 1.0', '"timeout_s": 2.0')
        )
    else:
        first = {
            "twice": lines[1],
            "foreign": json.dumps(line | {"cell": "nobody/nowhere"}) + "\n",
            "garbage": "{\n",
            "schema": json.dumps(line | {"schema_version": "shardproof.audit/9"}) + "\n",
            "extra": json.dumps(line | {"verdict": "pass"}) + "\n",
        }[tamper]
        path.write_text("".join([first, *lines[1:]]))

    with pytest.raises(store.StoredRunError):
        regrade(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda verdict: verdict | {"word": "held", "exit_code": 0},
        lambda verdict: verdict | {"counts": {"pass": 2}},
        lambda verdict: verdict | {"cells": [cell | {"verdict": "pass"} for cell in verdict["cells"]]},
        lambda verdict: verdict | {"waivers": {"norm.global": "never said"}},
    ],
)
def test_a_verdict_that_does_not_follow_from_the_observations_is_not_believed(folder, change):
    path = folder / store.OBSERVATIONS
    lines = path.read_text().splitlines(keepends=True)
    line = json.loads(lines[1])
    line["ranks"][0]["calls"][0]["returned"]["number"] = 1.0
    path.write_text("".join([lines[0], json.dumps(line) + "\n", *lines[2:]]))
    assert regrade(folder).word == "violated"
    assert believed(folder).verdict.word == "violated"

    (folder / store.VERDICT).write_text(json.dumps(change(json.loads((folder / store.VERDICT).read_text()))))

    with pytest.raises(store.StoredRunError, match="follows from the observations"):
        believed(folder)


def test_a_verdict_on_another_plan_is_refused(folder):
    regrade(folder)
    (folder / store.PLAN).write_text((folder / store.PLAN).read_text() + "\n")

    with pytest.raises(store.StoredRunError, match="Grade again"):
        store.read_report(folder)


def test_a_folder_that_holds_something_is_refused(folder, plan, tmp_path):
    with pytest.raises(InvalidValueError, match="new or empty folder"):
        store.begin(folder, plan, environment())
    (tmp_path / "file").touch()
    with pytest.raises(InvalidValueError, match="new or empty folder"):
        store.begin(tmp_path / "file", plan, environment())
    with pytest.raises(InvalidValueError, match="stored run"):
        regrade(tmp_path)


@pytest.mark.processes
def test_a_killed_harness_leaves_a_run_that_can_be_graded_and_no_process(tmp_path, subjects):
    pytest.importorskip("torch", reason="ranks need torch")
    pids, run = tmp_path / "pids", tmp_path / "run"
    command = [sys.executable, "-c", "from shardproof.cli.main import run; run()", "audit", "run"]
    spec = f"{subjects / 'rude.py'}:sleeps"
    harness = subprocess.Popen(
        [*command, spec, "--layout", "one-rank", "--layout", "ddp", "--out", run, "--timeout", "60"],
        env=os.environ | {"SHARDPROOF_TEST_PIDS": str(pids), "TMPDIR": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: pids.is_file() and pids.read_text(), 60)
    harness.send_signal(signal.SIGKILL)
    harness.wait(10)

    rank = int(pids.read_text().split()[0])
    wait_for(lambda: not Path(f"/proc/{rank}").exists() or " Z " in Path(f"/proc/{rank}/stat").read_text(), 10)
    verdict = regrade(run)
    assert (verdict.word, verdict.observed, verdict.counts) == ("nothing ran", 0, {"not run": 2})
    assert verdict.cells[0].verdict == "pass", "the control of the first layout was stored before"


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda plan: plan["cells"][1].update(layout="nowhere"), "no layout of the plan"),
        (lambda plan: plan["cells"][1].update(subject="nobody"), "no subject of the plan"),
        (lambda plan: plan["cells"][1].update(id=plan["cells"][0]["id"]), "planned more than once"),
        (lambda plan: plan["layouts"][0]["fixtures"][0].update(gradients={}), "not those of the tensors"),
        (lambda plan: plan["layouts"][0]["pieces"][0].update(tensor="none"), "has not"),
        (lambda plan: plan["layouts"][0]["pieces"][0].update(indices=[-1]), "has not"),
        (lambda plan: plan["layouts"][0]["pieces"][0].update(rank=7), "lies on rank 7 of 2"),
        (lambda plan: plan["layouts"][0]["pieces"][0].update(placements={}), "lies on the axes"),
        (lambda plan: plan["layouts"][0].update(axes={"dp": 3}), "do not make 2 ranks"),
    ],
)
def test_a_plan_that_does_not_hold_together_is_refused(folder, damage, said):
    path = folder / store.PLAN
    plan = json.loads(path.read_text())
    damage(plan)
    path.write_text(json.dumps(plan))

    with pytest.raises(store.StoredRunError, match=said):
        store.read_plan(folder)


def test_a_run_goes_on_only_with_the_subject_that_was_planned(tmp_path):
    """Cells of two versions of one file would be graded as if they were one subject's."""
    script = tmp_path / "subject.py"
    script.write_text("def clip(params, max_norm, ctx):\n    return 1.0\n")
    plan = plan_of([f"{script}:clip"], named(["one-rank"]), timeout_s=1.0)
    begin(tmp_path / "run", plan)
    script.write_text("def clip(params, max_norm, ctx):\n    return 2.0\n")

    with pytest.raises(store.StoredRunError, match="changed since the run was planned"):
        go_on(tmp_path / "run")
    script.unlink()
    with pytest.raises(store.StoredRunError, match="not there any more"):
        go_on(tmp_path / "run")
    assert not (tmp_path / "run" / store.OBSERVATIONS).read_text()


@pytest.mark.processes
def test_a_second_observation_that_was_cut_off_is_made_up_for(tmp_path):
    """One observation that is no pass could be chance, also where the harness was killed before the second."""
    script = tmp_path / "subject.py"
    script.write_text("def clip(params, max_norm, ctx):\n    return 1.0\n")
    run = tmp_path / "run"
    begin(run, plan_of([f"{script}:clip"], named(["one-rank"]), timeout_s=1.0))
    assert go_on(run).cells[1].runs == 2
    path = run / store.OBSERVATIONS
    path.write_bytes(path.read_bytes()[:-100])
    assert regrade(run).cells[1].runs == 1

    assert go_on(run).cells[1].runs == 2
    assert [json.loads(line)["repeat"] for line in path.read_text().splitlines()] == [1, 1, 2]


@pytest.mark.processes
def test_a_subject_that_changes_while_it_runs_is_not_judged(tmp_path):
    script = tmp_path / "subject.py"
    script.write_text("def clip(params, max_norm, ctx):\n    return 1.0\n")
    begin(tmp_path / "run", plan_of([f"{script}:clip"], named(["one-rank"]), timeout_s=1.0))

    verdict = go_on(tmp_path / "run", lambda step: script.write_text("def clip(params, max_norm, ctx): ...\n"))

    assert verdict.word == "could not tell"
    assert "changed since the run was planned" in verdict.cells[1].reason


def test_two_processes_do_not_add_to_one_run(folder):
    with store.alone(folder), pytest.raises(InvalidValueError, match="nobody else is running"):
        go_on(folder)
    assert go_on(folder).word == "held"


def test_what_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidValueError, match=r"can be written, got .*page\.html: File exists"):
        store.write_whole(tmp_path / "file" / "page.html", b"")
    with pytest.raises(InvalidValueError, match=r"can be written, got .*: Is a directory"):
        store.write_whole(tmp_path, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
