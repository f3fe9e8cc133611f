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
from shardproof.audit.run import regrade
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
