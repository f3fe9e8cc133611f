"""The audit's verdict on a terminal: the matrix layouts x subjects, and below it why what failed failed."""

from __future__ import annotations

import textwrap
from collections import Counter

from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from shardproof.records.audit import AuditReport, Candidate, CellVerdict, CellWord, Diagnosis, Profile
from shardproof.report.page import printable

_STYLES: dict[CellWord, str] = {
    "pass": "green",
    "fail": "bold red",
    "error": "red",
    "hang": "magenta",
    "crash": "magenta",
    "skip": "yellow",
    "not run": "yellow",
    "could not tell": "yellow",
    "flaky": "yellow",
}

NEAREST = 3
"""Implementations that are said to come near where none explains a subject."""


def print_audit(report: AuditReport, console: Console) -> None:
    """Print matrix, reasons, and what the result does not show."""
    parts: list[RenderableType] = [_matrix(report)]
    profile = report.verdict.profile
    parts += [_reason(number, cell, profile, console) for number, cell in enumerate(_unsettled(report), start=1)]
    parts += [_control(cell, console) for cell in report.verdict.cells if cell.control and cell.verdict != "pass"]
    parts += [_indented(line, console) for line in (*diagnosis_lines(report), *strict_lines(report))]
    waived = [f"Waived: {clause}, because {reason}" for clause, reason in report.verdict.waivers.items()]
    parts += [_indented(line, console, style="yellow") for line in waived]
    parts += [_indented(f"Note: {note}.", console, style="yellow") for note in report.verdict.notes]
    if _fixtures(report):
        parts.append(_indented(f"Fixtures: {_fixtures(report)}.", console, later="  "))
    console.print(Group(*parts, Text(report.verdict.limits[0]), Text(summary_line(report))))


def strict_lines(report: AuditReport) -> list[str]:
    """For each subject, how many layouts violate which strict clause; said whichever profile decides."""
    lines = []
    for subject, across in zip(report.plan.subjects, report.verdict.across, strict=False):
        cells = [cell for cell in report.verdict.cells if cell.subject == subject.name and not cell.control]
        ran = [cell for cell in cells if cell.verdict in ("pass", "fail")]
        found = Counter(
            each.clause
            for cell in ran
            for each in cell.clauses
            if each.profile == "strict" and each.outcome in ("violated", "waived")
        )
        parts = [f"{clause} violated in {number} of {len(ran)} layouts" for clause, number in found.items()]
        parts += [f"{across.clause} violated: {across.first.text}"] if across.first else []
        held = f"no violation in {len(ran)} layouts" if ran else "no layout ran to its end"
        lines.append(f"Strict, {subject.name}: {'; '.join(parts) or held}.")
    return lines


def summary_line(report: AuditReport) -> str:
    """How many of the planned cells came to which verdict.

    For example: "violated: 11 pass, 2 fail, 1 error of 14 cells; graded by shardproof 0.1.0, torch 2.13.0".
    """
    verdict = report.verdict
    counts = ", ".join(f"{verdict.counts[word]} {word}" for word in _STYLES if word in verdict.counts)
    torch = report.environment.packages.get("torch", "not installed")
    return (
        f"{verdict.word}: {counts or 'no cell'} of {verdict.planned} cells; "
        f"graded by {verdict.graded_by}, torch {torch}"
    )


def _unsettled(report: AuditReport) -> list[CellVerdict]:
    return [cell for cell in report.verdict.cells if not cell.control and cell.verdict != "pass"]


def _matrix(report: AuditReport) -> Table:
    numbers = {cell.cell: number for number, cell in enumerate(_unsettled(report), start=1)}
    cells = {(cell.layout, cell.subject): cell for cell in report.verdict.cells}
    # Text, for a name in brackets would be read as markup; and a stored name may hold what drives a terminal.
    names = [Text(printable(subject.name)) for subject in report.plan.subjects]
    table = Table("layout", "ranks", *(Column(name) for name in names))
    for layout in report.plan.layouts:
        row = [cells.get((layout.name, subject.name)) for subject in report.plan.subjects]
        table.add_row(Text(printable(layout.name)), str(layout.world_size), *(_word(cell, numbers) for cell in row))
    return table


def _word(cell: CellVerdict | None, numbers: dict[str, int]) -> Text:
    if cell is None:
        return Text("-")
    mark = f" [{numbers[cell.cell]}]" if cell.cell in numbers else ""
    return Text(cell.verdict + mark, style=_STYLES[cell.verdict])


def _fixtures(report: AuditReport) -> str:
    """What the fixtures are that the printed reasons name."""
    named = {each.first.fixture for cell in _unsettled(report) for each in cell.clauses if each.first}
    titles = {fixture.name: fixture.title for layout in report.plan.layouts for fixture in layout.fixtures}
    return "; ".join(f"{name}, {title}" for name, title in titles.items() if name in named)


def _control(cell: CellVerdict, console: Console) -> Text:
    return _indented(f"control under {cell.layout}: {cell.verdict}, {cell.reason}", console, style="yellow")


def _reason(number: int, cell: CellVerdict, profile: Profile, console: Console) -> RenderableType:
    head = _indented(f"[{number}] {cell.subject} under {cell.layout}: {cell.verdict}", console)
    head.highlight_words([cell.verdict], style=_STYLES[cell.verdict])
    lines = [
        f"{each.clause}{' (waived)' if each.outcome == 'waived' else ''}: {each.first.text}"
        for each in cell.clauses
        if each.first is not None and each.clause != "calls.return" and (each.profile == "core" or profile == "strict")
    ]
    if cell.verdict != "fail":
        lines.insert(0, cell.reason)
    return Group(head, *(_indented(line, console, first="    ", later="      ") for line in lines))


def _indented(text: str, console: Console, *, first: str = "", later: str = "    ", style: str = "") -> Text:
    """Wrapped with a hanging indent; rich's own would fill every line with blanks."""
    safe = printable(text, console.encoding)
    filled = textwrap.fill(
        safe,
        width=max(20, console.width),
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return Text(filled, style=style)


def diagnosis_lines(report: AuditReport) -> list[str]:
    """What explains each failing subject, in sentences; never one name where several fit."""
    return [line for diagnosis in report.verdict.diagnoses for line in _diagnosed(diagnosis)]


def _diagnosed(diagnosis: Diagnosis) -> list[str]:
    head = f"Diagnosis of {diagnosis.subject} ({diagnosis.scope}): "
    beside = f" Left out: {', '.join(diagnosis.left_out)}." if diagnosis.left_out else ""
    counts = f"{diagnosis.wrong} of {diagnosis.observations} observations are wrong"
    if diagnosis.word == "explained":
        names = [candidate_text(candidate) for candidate in diagnosis.candidates]
        lines = [f"{head}{counts}; explained by {' or by '.join(names)}.{beside}"]
        telling = "; ".join(f"{told.layout} ({told.fixture}) {told.one} from {told.other}" for told in diagnosis.apart)
        return [*lines, f"Layouts that were not run would tell: {telling}."] if telling else lines
    nearest = "; ".join(
        f"{each.nearest.mechanism} ({each.nearest.implementation}) agrees on {each.agreeing} of {each.of}"
        for each in diagnosis.residuals[:NEAREST]
    )
    near = f" Nearest, and not it: {nearest}." if nearest else ""
    return [f"{head}{counts}; {diagnosis.word}.{near}{beside}"]


def candidate_text(candidate: Candidate) -> str:
    """A candidate in words: the mechanisms that are made together, and a reading in which they fit."""
    first, others = candidate.together[0], len(candidate.together) - 1
    names = " together with ".join(f"{each.mechanism} ({each.implementation}; {each.reading})" for each in first)
    return names + (f" [and {others} more readings]" if others else "")
