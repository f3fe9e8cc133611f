"""The audit's verdict as one page that opens from disk: no script, no network, every number from the record."""

from __future__ import annotations

import json
from typing import Final, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined

from shardproof.records.audit import AuditReport, CellVerdict, CellWord, ClauseVerdict
from shardproof.report.page import printable
from shardproof.report.plots import bars, off

MARKS: Final = {"held": "✓", "violated": "✗", "waived": "~", "not exercised": "·"}


def audit_html(report: AuditReport) -> str:
    """Return the page; its numbers are written as report.json writes them."""
    environment = Environment(
        loader=PackageLoader("shardproof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment.get_template("audit.html").render(
        report=report,
        cells={(cell.layout, cell.subject): cell for cell in report.verdict.cells},
        unsettled=[cell for cell in report.verdict.cells if cell.verdict != "pass"],
        calls={call.name: call.title for layout in report.plan.layouts for call in layout.fixtures},
        words_of=lambda subject: _words(report, subject),
        by_clause=_by_clause,
        marks=MARKS,
        bars=bars,
        off=off,
        anchor=_anchor,
    )


def audit_json(report: AuditReport) -> str:
    """Return the same as JSON: plan, environment and verdict."""
    return report.model_dump_json(indent=1) + "\n"


def number(value: float | None) -> str:
    """A number as the JSON writes it.

    >>> number(0.5), number(float("inf")), number(None)
    ('0.5', 'inf', '-')
    """
    if value is None:
        return "-"
    return json.dumps(value) if value - value == 0 else str(value)


def _words(report: AuditReport, subject: str) -> list[str]:
    """The verdicts that a subject's cells came to, each once, the worst first."""
    found = {cell.verdict for cell in report.verdict.cells if cell.subject == subject and not cell.control}
    return [word for word in get_args(CellWord)[::-1] if word in found]


def _by_clause(cell: CellVerdict | None) -> dict[str, ClauseVerdict]:
    return {each.clause: each for each in cell.clauses} if cell else {}


def _shown(value: object) -> object:
    # A subject's own words may hold control characters, which no page may; markup is ours and stays.
    return printable(value) if type(value) is str else value


def _anchor(cell: CellVerdict) -> str:
    return "cell-" + "".join(letter if letter.isalnum() else "-" for letter in cell.cell)
