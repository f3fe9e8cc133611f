"""The audit's verdict on a terminal: the matrix layouts x subjects, and below it why what failed failed."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
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
    reasons = [_reason(number, cell, console.encoding) for number, cell in enumerate(_unsettled(report), start=1)]
    parts: list[RenderableType] = [_matrix(report), *reasons]
    parts += [_control(cell, console.encoding) for cell in report.verdict.cells if cell.control]
    parts += [Text(f"Note: {note}.", style="yellow") for note in report.verdict.notes]
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


def _control(cell: CellVerdict, encoding: str) -> RenderableType:
    if cell.verdict == "pass":
        return Group()
    return Text(printable(f"control under {cell.layout} {cell.verdict}: {cell.reason}", encoding), style="yellow")


def _reason(number: int, cell: CellVerdict, encoding: str) -> RenderableType:
    head = Text(f"[{number}] {printable(cell.subject, encoding)} under {cell.layout}: ")
    head.append(cell.verdict, style=_STYLES[cell.verdict])
    lines = [
        f"{each.clause}: {each.first.text}"
        for each in cell.clauses
        if each.outcome == "violated" and each.first is not None
    ]
    if cell.verdict != "fail":
        lines.insert(0, cell.reason)
    return Group(head, *(Padding(Text(printable(line, encoding)), (0, 0, 0, 4), expand=False) for line in lines))
