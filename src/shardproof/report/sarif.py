"""The audit's verdict as SARIF 2.1.0: one result for each violated clause, at the line that defines the subject."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardproof.records.audit import AuditReport, CellVerdict, SubjectPlan
from shardproof.report.page import printable

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
UNSETTLED = ("could not tell", "flaky", "not run")


def audit_sarif(report: AuditReport, base: Path) -> str:
    """Return the log as JSON.

    A result's fingerprint is made from subject, layout and clause only, so that it stays the same from run to run.

    Args:
        report: a graded run.
        base: the folder that file paths are written relative to, where they lie below it.
    """
    subjects = {subject.name: subject for subject in report.plan.subjects}
    results = [
        result
        for cell in report.verdict.cells
        if not cell.control
        for result in _results(cell, subjects[cell.subject], base, report)
    ]
    unsettled = [cell for cell in report.verdict.cells if not cell.control and cell.verdict in UNSETTLED]
    run = {
        "tool": {"driver": _driver(report)},
        "invocations": [
            {
                "executionSuccessful": report.verdict.word in ("held", "violated"),
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": printable(f"{cell.cell}: {cell.verdict}, {cell.reason}")}}
                    for cell in unsettled
                ],
            }
        ],
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, allow_nan=False) + "\n"


def _driver(report: AuditReport) -> dict[str, Any]:
    name, _, version = report.verdict.graded_by.partition(" ")
    rules = [
        {"id": clause, "shortDescription": {"text": text}, "properties": {"profile": _profile(report, clause)}}
        for clause, text in report.verdict.clauses.items()
    ]
    return {"name": name, "version": version, "rules": rules}


def _profile(report: AuditReport, clause: str) -> str:
    return "strict" if clause in report.verdict.strict_clauses else "core"


def _results(cell: CellVerdict, subject: SubjectPlan, base: Path, report: AuditReport) -> Iterator[dict[str, Any]]:
    if cell.verdict in (*UNSETTLED, "skip"):
        return
    for each in cell.clauses:
        if each.outcome not in ("violated", "waived") or each.first is None:
            continue
        decides = each.profile == "core" or report.verdict.profile == "strict"
        result: dict[str, Any] = {
            "ruleId": each.clause,
            "level": "error" if decides else "note",
            "message": {"text": printable(f"under {cell.layout}: {each.first.text}")},
            "locations": [_location(subject, base)],
            "partialFingerprints": {"shardproofCellClause/v1": _fingerprint(cell, each.clause)},
        }
        if each.outcome == "waived":
            reason = printable(report.verdict.waivers.get(each.clause, ""))
            result["suppressions"] = [{"kind": "external", "justification": reason}]
        yield result


def _location(subject: SubjectPlan, base: Path) -> dict[str, Any]:
    name = {"fullyQualifiedName": printable(subject.spec), "kind": "function"}
    if subject.file is None:
        return {"logicalLocations": [name]}
    path = Path(subject.file)
    uri = path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_uri()
    physical = {"artifactLocation": {"uri": uri}, "region": {"startLine": subject.line or 1}}
    return {"physicalLocation": physical, "logicalLocations": [name]}


def _fingerprint(cell: CellVerdict, clause: str) -> str:
    return hashlib.sha256("\0".join((cell.subject, cell.layout, clause)).encode(errors="replace")).hexdigest()
