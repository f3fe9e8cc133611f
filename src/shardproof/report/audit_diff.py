"""Two runs compared, and what an audit finds here, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shardproof.records.audit import AuditDiff, Doctor
from shardproof.report.page import printable


def print_diff(diff: AuditDiff, console: Console) -> None:
    """Print the cells that changed, then the notes, then how many did not change."""
    if diff.changes:
        table = Table("subject", "layout", "was", "is", "clauses")
        for change in diff.changes:
            clauses = "\n".join(f"{each.clause}: {each.old} -> {each.new}" for each in change.clauses)
            cells = (change.subject, change.layout, change.old, change.new)
            table.add_row(*(Text(printable(cell, console.encoding)) for cell in cells), Text(clauses))
        console.print(table)
    for note in diff.notes:
        console.print(Text(printable(f"Note: {note}.", console.encoding)))
    console.print(Text(f"{len(diff.changes)} cells changed, {diff.same} did not; {diff.old.word} -> {diff.new.word}"))


def print_doctor(doctor: Doctor, console: Console) -> None:
    """Print what was looked for, one line each."""
    table = Table("what", "found", "")
    for line in doctor.lines:
        mark = Text("yes", style="green") if line.found else Text("no", style="yellow")
        table.add_row(line.what, mark, Text(printable(line.text, console.encoding)))
    console.print(table)
