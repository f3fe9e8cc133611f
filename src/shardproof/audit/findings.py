"""Collecting findings from stored runs: what the verdicts say, and a reproduction of each failure, run once."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from shardproof.audit import shrink_store, store
from shardproof.audit.grade import LIMITS, VIOLATIONS
from shardproof.audit.reproduction import reproduction
from shardproof.audit.reproduction_cell import shown_of
from shardproof.audit.subjects import BUILT_IN
from shardproof.errors import InvalidValueError
from shardproof.records.audit import AuditReport, CellPlan, CellVerdict, Diagnosis, SubjectPlan
from shardproof.records.findings import FindingCell, Findings, FindingSubject, SmallestCase

RECORD: Final = "findings/findings.json"
REPRODUCTIONS: Final = "findings/reproductions"
ALLOWED_S: Final = 300


def collect(runs: Sequence[Path], docs: Path, progress: Callable[[str], None] = lambda text: None) -> Findings:
    """Write a reproduction of each failing cell and the record into `docs`, running each reproduction once.

    Args:
        runs: folders of graded runs of built-in subjects; shrunk failures in them are used.
        docs: the folder of the page, which is written from the record.
        progress: is told which reproduction is run.

    Raises:
        InvalidValueError: a run audits something that is not built in, or two runs audit the same subject.
        StoredRunError: a run does not hold together.
    """
    found = [each for folder in runs for each in _subjects(folder, docs, progress)]
    names = [each.subject for each in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidValueError(f"Expected each subject in one run, got {twice[0]} in two. Leave one run out.")
    findings = Findings(subjects=tuple(found), limits=LIMITS)
    (docs / RECORD).parent.mkdir(parents=True, exist_ok=True)
    store.write_whole(docs / RECORD, findings.model_dump_json(indent=1).encode() + b"\n")
    return findings


def _subjects(folder: Path, docs: Path, progress: Callable[[str], None]) -> list[FindingSubject]:
    stored = store.read_report(folder)
    if foreign := [each.spec for each in stored.plan.subjects if each.spec not in BUILT_IN]:
        raise InvalidValueError(f"Expected runs of built-in subjects, got {foreign[0]} in {folder}.")
    return [_subject(folder, stored, subject, docs, progress) for subject in stored.plan.subjects]


def _subject(
    folder: Path, stored: AuditReport, subject: SubjectPlan, docs: Path, progress: Callable[[str], None]
) -> FindingSubject:
    built_in, environment = BUILT_IN[subject.spec], stored.environment
    cells = [cell for cell in stored.verdict.cells if cell.subject == subject.name and not cell.control]
    plans = {cell.id: cell for cell in stored.plan.cells}
    return FindingSubject(
        subject=subject.name,
        calls=built_in.calls,
        run_id=stored.plan.run_id,
        plan_sha256=stored.verdict.plan_sha256,
        time=environment.time,
        python=environment.python,
        platform=environment.platform,
        packages={name: version for name, version in environment.packages.items() if _named(name, built_in.needs)},
        explained=tuple(_told(each) for each in stored.verdict.diagnoses if each.subject == subject.name),
        cells=tuple(_cell(folder, stored, cell, plans[cell.cell], docs, progress) for cell in cells),
    )


def _named(package: str, needs: Sequence[str]) -> bool:
    return package.replace("-", "_") in (*needs, "shardproof")


def _told(diagnosis: Diagnosis) -> str:
    head = f"Diagnosis ({diagnosis.scope}): {diagnosis.wrong} of {diagnosis.observations} observations are wrong"
    names = [
        " with ".join(f"{name.mechanism} ({name.implementation})" for name in candidate.together[0])
        for candidate in diagnosis.candidates
    ]
    left = f" Cells that took no part: {', '.join(diagnosis.left_out)}." if diagnosis.left_out else ""
    return f"{head}; {diagnosis.word}{': ' + ' or '.join(names) if names else ''}.{left}"


def _cell(
    folder: Path,
    stored: AuditReport,
    cell: CellVerdict,
    planned: CellPlan,
    docs: Path,
    progress: Callable[[str], None],
) -> FindingCell:
    layout = next(each for each in stored.plan.layouts if each.name == cell.layout)
    violated = [each for each in cell.clauses if each.outcome == "violated"]
    shrunk = shrink_store.read(folder, cell.cell, stored.verdict.plan_sha256)
    words = ("shardproof", "audit", "run", planned.subject, "--layout", planned.layout)
    found = FindingCell(
        layout=cell.layout,
        title=layout.title,
        verdict=cell.verdict,
        reason=cell.reason,
        clauses=tuple(each.clause for each in violated if each.profile == "core"),
        strict=tuple(each.clause for each in violated if each.profile == "strict"),
        command=shlex.join(words),
        smallest=SmallestCase(limit=shrunk.limit, norm=shrunk.norm, ranks=shrunk.ranks) if shrunk else None,
    )
    subject = next(each for each in stored.plan.subjects if each.name == planned.subject)
    if cell.verdict not in VIOLATIONS or subject.framework != "torch":
        return found
    file = f"{re.sub('[^A-Za-z0-9]+', '_', f'{planned.subject}_{planned.layout}')}.py"
    progress(file)
    path = docs / REPRODUCTIONS / file
    path.parent.mkdir(parents=True, exist_ok=True)
    store.write_whole(path, reproduction(shown_of(folder, planned), file).encode())
    return found.model_copy(update={"reproduction": f"{REPRODUCTIONS}/{file}", "exit_code": _exit_code(path)})


def _exit_code(path: Path) -> int | None:
    """How the file ends; None where it does not in time."""
    try:
        ended = subprocess.run([sys.executable, str(path)], capture_output=True, timeout=ALLOWED_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return ended.returncode
