"""`shardproof audit` as a user calls it: exit codes, files, and what is printed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shardproof.audit.layouts import LAYOUTS
from shardproof.cli.demo import worst
from shardproof.cli.exits import Exit
from shardproof.cli.main import app

SUBJECTS = Path(__file__).parent.parent / "audit" / "subjects"
RUN = [sys.executable, "-c", "from shardproof.cli.main import run; run()", "audit"]


def audit(*arguments, cwd=None, **environment):
    return subprocess.run(
        [*RUN, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=cwd,
        env=os.environ | environment,
        check=False,
    )


def test_layouts_can_be_listed_without_a_framework():
    result = CliRunner().invoke(app, ["audit", "run", "--list"])

    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(LAYOUTS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "nothing"],
        ["run", "no_such_file.py:clip"],
        ["run", "no_such_module_at_all:clip"],
        ["run", f"{SUBJECTS / 'right.py'}:no_such_name"],
        ["run", f"{SUBJECTS / 'right.py'}:by_hand", "--layout", "no-such-layout"],
        ["run", f"{SUBJECTS / 'right.py'}:by_hand", "--timeout", "0"],
        ["run", f"{SUBJECTS / 'right.py'}:by_hand", "--timeout", "nan"],
        ["run", f"{SUBJECTS / 'right.py'}:by_hand", "--out", str(SUBJECTS)],
        ["run", f"{SUBJECTS / 'right.py'}:by_hand", "--waive", "norm.global"],
        ["run", f"{SUBJECTS / 'right.py'}:by_hand", "--waive", "norm.globul=why"],
        ["run", f"{SUBJECTS / 'right.py'}:by_hand", "--repeat", "0"],
        ["run", f"{SUBJECTS / 'right.py'}:by_hand", "--quick", "--layout", "ddp"],
        ["run", "--resume", str(SUBJECTS)],
        ["run", "torch", "--resume", str(SUBJECTS)],
        ["grade", str(SUBJECTS)],
        ["diff", str(SUBJECTS), str(SUBJECTS)],
        ["replay", str(SUBJECTS), "1"],
        ["report", str(SUBJECTS)],
    ],
)
def test_what_cannot_be_used_exits_2_before_anything_starts(arguments, tmp_path):
    done = audit(*arguments, cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.processes
def test_a_run_is_stored_graded_and_rendered(tmp_path):
    pytest.importorskip("torch", reason="ranks need torch")
    right, wrong = f"{SUBJECTS / 'right.py'}:by_hand", f"{SUBJECTS / 'wrong.py'}:local_norm"
    run = tmp_path / "run"

    done = audit("run", right, wrong, "--layout", "hand-sharded", "--layout", "one-rank", "--out", run)

    assert done.returncode == 1, done.stderr
    assert "wrong.py:local_norm under hand-sharded: fail" in done.stdout
    assert "expected norm 14.0, returned 10.862780570983887 on rank 0 (0.7759 times)" in done.stdout
    assert "violated: 3 pass, 1 fail of 4 cells" in done.stdout
    assert "[6/6] wrong.py:local_norm under hand-sharded" in done.stderr
    again = audit("grade", run, "--json")
    assert again.returncode == 1
    assert json.loads(again.stdout)["verdict"]["counts"] == {"pass": 3, "fail": 1}
    html, json_ = tmp_path / "a" / "report.html", tmp_path / "a" / "report.json"
    assert audit("report", run, "--html", html, "--json", json_).returncode == 0
    assert json_.read_text() == again.stdout
    assert "10.862780570983887" in html.read_text()
    assert audit("report", run).stdout == done.stdout


@pytest.mark.processes
def test_a_run_can_be_resumed_waived_compared_and_replayed(tmp_path):
    pytest.importorskip("torch", reason="ranks need torch")
    wrong, run, other = f"{SUBJECTS / 'wrong.py'}:local_norm", tmp_path / "run", tmp_path / "other"
    layouts = ["--layout", "hand-sharded", "--layout", "one-rank"]
    files = ["--junit", tmp_path / "j.xml", "--sarif", tmp_path / "s.json", "--html", tmp_path / "h.html"]
    waived = [f"--waive={clause}=known" for clause in ("norm.global", "norm.same-on-ranks", "scale.one-factor")]

    assert audit("run", wrong, *layouts, "--out", run, *files, cwd=tmp_path).returncode == 1
    assert 'failures="1"' in (tmp_path / "j.xml").read_text()
    assert json.loads((tmp_path / "s.json").read_text())["runs"][0]["results"]
    assert "<h1>" in (tmp_path / "h.html").read_text()
    observations = (run / "observations.jsonl").read_text().splitlines(keepends=True)
    assert [json.loads(line)["repeat"] for line in observations] == [1, 1, 1, 1, 2], "a failing cell is run again"

    (run / "observations.jsonl").write_text("".join(observations[:2]) + observations[2][:100])
    done = audit("run", "--resume", run, *waived, "--waive", "copies.equal=known too")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[3/4] control under hand-sharded" in done.stderr
    assert "[1/4]" not in done.stderr
    assert "Waived: copies.equal, because known too" in done.stdout

    replay = audit("replay", run, "wrong.py:local_norm/hand-sharded")
    assert replay.stdout == f"shardproof audit run {wrong} --layout hand-sharded --timeout 5 --profile core\n"
    assert audit("run", wrong, "--layout", "one-rank", "--out", other).returncode == 0
    compared = audit("diff", run, other)
    assert (compared.returncode, "1 cells changed, 1 did not" in compared.stdout) == (1, True)
    assert audit("diff", run, run).returncode == 0


@pytest.mark.processes
def test_the_doctor_says_what_is_there():
    pytest.importorskip("torch", reason="ranks need torch")
    done = audit("doctor", "--json")

    lines = {line["what"]: line for line in json.loads(done.stdout)["lines"]}
    assert (done.returncode, lines["ranks"]["found"]) == (0, True)
    assert {"back end gloo", "isolation process", "subject torch"} <= lines.keys()


@pytest.mark.processes
def test_a_subject_that_passes_exits_0_and_a_module_is_found_beside_the_caller(tmp_path):
    pytest.importorskip("torch", reason="ranks need torch")
    (tmp_path / "my_clips.py").write_text((SUBJECTS / "right.py").read_text())

    done = audit("run", "my_clips:by_hand", "--layout", "pipeline", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"]["word"] == "held"
    assert report["plan"]["subjects"][0]["name"] == "my_clips:by_hand"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__"] == ["audit-runs"]


@pytest.mark.processes
def test_a_tampered_run_exits_4(tmp_path):
    pytest.importorskip("torch", reason="ranks need torch")
    run = tmp_path / "run"
    assert audit("run", f"{SUBJECTS / 'right.py'}:by_hand", "--layout", "one-rank", "--out", run).returncode == 0
    (run / "plan.json").write_text((run / "plan.json").read_text().replace("one rank", "two ranks"))

    assert audit("grade", run).returncode == 4
    assert audit("report", run).returncode == 4


@pytest.mark.processes
def test_an_interrupted_run_is_graded_and_could_not_tell(tmp_path):
    pytest.importorskip("torch", reason="ranks need torch")
    pids, run = tmp_path / "pids", tmp_path / "run"
    subjects = [f"{SUBJECTS / 'right.py'}:by_hand", f"{SUBJECTS / 'rude.py'}:sleeps"]
    harness = subprocess.Popen(
        [*RUN, "run", *subjects, "--layout", "one-rank", "--out", str(run), "--timeout", "60"],
        env=os.environ | {"SHARDPROOF_TEST_PIDS": str(pids)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not pids.is_file() or not pids.read_text():
        assert time.monotonic() < end
        time.sleep(0.05)
    harness.send_signal(signal.SIGINT)
    stdout, stderr = harness.communicate(timeout=20)

    assert harness.returncode == 3, stdout + stderr
    assert "Interrupted" in stderr
    assert "could not tell: 1 pass, 1 not run of 2 cells" in stdout


@pytest.mark.processes
def test_the_demo_shows_shardproof_right_everywhere_and_names_where_torch_is_not(tmp_path):
    pytest.importorskip("torch", reason="ranks need torch")
    command = [sys.executable, "-m", "shardproof.cli.demo", str(tmp_path / "no-pages"), "--out", str(tmp_path / "demo")]
    for _ in range(2):  # the second time, the first one's run is in the way
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert f"No published page in {tmp_path / 'no-pages'}: none is verified" in done.stdout
    assert "[21/21] shardproof under pipeline" in done.stderr

    report = json.loads((tmp_path / "demo" / "report.json").read_text())
    words = {(cell["subject"], cell["layout"]): cell["verdict"] for cell in report["verdict"]["cells"]}
    assert {word for (subject, _), word in words.items() if subject in ("shardproof", "control")} == {"pass"}
    assert words["torch", "hand-sharded"] == words["torch", "pipeline"] == "fail"
    assert words["torch", "one-rank"] == words["torch", "ddp"] == "pass"
    assert (tmp_path / "demo" / "report.html").read_text().startswith("<!doctype html>")


def test_the_demo_reports_the_worst_of_what_it_checked():
    assert worst([Exit.HELD, Exit.COULD_NOT_TELL]) == Exit.COULD_NOT_TELL
    assert worst([Exit.COULD_NOT_TELL, Exit.VIOLATED]) == Exit.VIOLATED
    assert worst([Exit.MISMATCH, Exit.VIOLATED]) == Exit.MISMATCH
    assert worst([Exit.HELD, Exit.HELD]) == Exit.HELD
