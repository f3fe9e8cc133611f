"""The audit's verdict as JUnit XML: one test case for each planned cell, whether it ran or not."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from shardproof.records.audit import AuditReport, CellVerdict
from shardproof.report.page import printable

_ELEMENTS: Mapping[str, str] = {
    "fail": "failure",
    "error": "error",
    "hang": "error",
    "crash": "error",
    "skip": "skipped",
    "not run": "skipped",
    "could not tell": "error",
    "flaky": "error",
}
"""What JUnit has no word for is an error: a verdict that could not be reached must not look like a pass."""


def audit_junit(report: AuditReport) -> str:
    """Return the XML text: one suite for each subject, one case for each layout, waivers as properties."""
    root = ET.Element("testsuites", name="shardproof audit")
    for subject in report.plan.subjects:
        cells = [cell for cell in report.verdict.cells if cell.subject == subject.name and not cell.control]
        _suite(root, report, subject.name, cells)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, report: AuditReport, subject: str, cells: list[CellVerdict]) -> None:
    kinds = [_ELEMENTS.get(cell.verdict) for cell in cells]
    counts = {
        "tests": len(cells),
        "failures": kinds.count("failure"),
        "errors": kinds.count("error"),
        "skipped": kinds.count("skipped"),
    }
    named = {"name": _text(subject), "timestamp": report.environment.time}
    suite = ET.SubElement(root, "testsuite", named | {name: str(count) for name, count in counts.items()})
    properties = ET.SubElement(suite, "properties")
    facts: dict[str, str] = {
        "run": report.plan.run_id,
        "graded_by": report.verdict.graded_by,
        "profile": report.verdict.profile,
    }
    waived = {f"waiver:{clause}": reason for clause, reason in report.verdict.waivers.items()}
    for name, value in (facts | waived).items():
        ET.SubElement(properties, "property", name=name, value=_text(value))
    for cell in cells:
        _case(suite, cell)


def _case(suite: ET.Element, cell: CellVerdict) -> None:
    case = ET.SubElement(suite, "testcase", classname=_text(cell.subject), name=cell.layout)
    kind = _ELEMENTS.get(cell.verdict)
    if kind is None:
        return
    said = ET.SubElement(case, kind, message=_text(f"{cell.verdict}: {cell.reason}"))
    violated = [each for each in cell.clauses if each.outcome == "violated" and each.first is not None]
    said.text = "\n".join(_text(f"{each.clause}: {each.first.text}") for each in violated if each.first)


def _text(text: str) -> str:
    return printable(text)
