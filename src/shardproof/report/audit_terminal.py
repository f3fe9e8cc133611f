"""The audit's verdict on a terminal: the matrix layouts x subjects, and below it why what failed failed."""

from __future__ import annotations

import textwrap

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from shardproof.records.audit import AuditReport, CellVerdict, CellWord
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
}


def print_audit(report: AuditReport, console: Console) -> None:
    """Print matrix, reasons, and what the result does not show."""
    parts: list[RenderableType] = [_matrix(report)]
    parts += [_reason(number, cell, console) for number, cell in enumerate(_unsettled(report), start=1)]
    parts += [_control(cell, console) for cell in report.verdict.cells if cell.control and cell.verdict != "pass"]
    parts += [Text(f"Note: {note}.", style="yellow") for note in report.verdict.notes]
    if _unsettled(report):
        parts.append(_indented(f"Fixtures: {_fixtures(report)}.", console, later="  "))
    console.print(Group(*parts, Text(report.verdict.limits[0]), Text(summary_line(report))))


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
    table = Table("layout", "ranks", *(subject.name for subject in report.plan.subjects))
    for layout in report.plan.layouts:
        row = [cells.get((layout.name, subject.name)) for subject in report.plan.subjects]
        table.add_row(layout.name, str(layout.world_size), *(_word(cell, numbers) for cell in row))
    return table


def _word(cell: CellVerdict | None, numbers: dict[str, int]) -> Text:
    if cell is None:
        return Text("-")
    mark = f" [{numbers[cell.cell]}]" if cell.cell in numbers else ""
    return Text(cell.verdict + mark, style=_STYLES[cell.verdict])


def _fixtures(report: AuditReport) -> str:
    titles = {fixture.name: fixture.title for layout in report.plan.layouts for fixture in layout.fixtures}
    return "; ".join(f"{name}, {title}" for name, title in titles.items())


def _control(cell: CellVerdict, console: Console) -> Text:
    return _indented(f"control under {cell.layout}: {cell.verdict}, {cell.reason}", console, style="yellow")


def _reason(number: int, cell: CellVerdict, console: Console) -> RenderableType:
    head = _indented(f"[{number}] {cell.subject} under {cell.layout}: {cell.verdict}", console)
    head.highlight_words([cell.verdict], style=_STYLES[cell.verdict])
    lines = [
        f"{each.clause}: {each.first.text}"
        for each in cell.clauses
        if each.outcome == "violated" and each.first is not None
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
