"""The page of findings says what its record says, every reproduction is there, and the record cannot say more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardproof.audit.findings import RECORD, REPRODUCTIONS, collect
from shardproof.audit.subjects import BUILT_IN
from shardproof.errors import InvalidValueError
from shardproof.records.findings import Findings
from shardproof.report.findings import findings_page

DOCS = Path(__file__).parents[2] / "docs"
FOUND = Findings.model_validate_json((DOCS / RECORD).read_bytes())
CELLS = [cell for subject in FOUND.subjects for cell in subject.cells]
FILES = [cell.reproduction for cell in CELLS if cell.reproduction]
ALL = os.environ.get("SHARDPROOF_ALL_REPRODUCTIONS")
RUN = FILES if ALL else FILES[:1]
"""Tests of one file of each kind of layout are in test_reproduction.py; with the variable set, every file is run."""


def test_the_page_is_written_from_the_record():
    assert (DOCS / "findings.md").read_text(encoding="utf-8") == findings_page(FOUND)


def test_every_subject_is_built_in_and_named_once():
    names = [subject.subject for subject in FOUND.subjects]

    assert set(names) <= set(BUILT_IN)
    assert len(set(names)) == len(names)
    for subject in FOUND.subjects:
        assert subject.packages, "versions are named"


def test_every_failure_has_a_file_that_was_seen_to_exit_1_and_nothing_else_has():
    for cell in CELLS:
        failed = cell.verdict in ("fail", "error", "hang", "crash")
        assert (cell.reproduction is not None) == failed, cell.layout
        assert not failed or cell.exit_code == 1, cell.layout
        assert (cell.verdict == "fail") <= bool(cell.clauses), cell.layout
    lines = {file: len((DOCS / file).read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {file: count for file, count in lines.items() if count > (145 if "/torch_" in file else 180)} == {}
    on_disk = {f"{REPRODUCTIONS}/{path.name}" for path in (DOCS / REPRODUCTIONS).glob("*.py")}
    assert on_disk == set(FILES)


def test_a_page_that_says_something_else_is_seen():
    first = FOUND.subjects[0]
    changed = first.cells[0].model_copy(update={"verdict": "hang"})
    other = FOUND.model_copy(update={"subjects": (first.model_copy(update={"cells": (changed, *first.cells[1:])}),)})

    assert findings_page(other) != findings_page(FOUND)


def test_a_run_of_something_else_is_refused(tmp_path, subjects):
    from shardproof.audit import store
    from shardproof.audit.environment import environment
    from shardproof.audit.layouts import named
    from shardproof.audit.run import plan_of, regrade

    plan = plan_of([f"{subjects / 'right.py'}:by_hand"], named(["one-rank"]), timeout_s=1.0)
    store.begin(tmp_path / "run", plan, environment())
    regrade(tmp_path / "run")
    with pytest.raises(InvalidValueError, match="built-in subjects"):
        collect([tmp_path / "run"], tmp_path / "docs")


@pytest.mark.processes
@pytest.mark.timeout(400)
@pytest.mark.parametrize("file", RUN)
def test_a_reproduction_that_is_linked_exits_1(file):
    ended = subprocess.run([sys.executable, str(DOCS / file)], capture_output=True, timeout=300, check=False)

    assert ended.returncode == 1, ended.stderr.decode()
