"""`shardproof audit`: run somebody's clipping under many layouts and grade it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from shardproof.cli.exits import Exit
from shardproof.errors import InvalidValueError

if TYPE_CHECKING:
    from shardproof.audit.run import Progress
    from shardproof.records.audit import AuditReport
    from shardproof.records.page import PageVerdict

PLAIN_WIDTH = 120
"""Columns where the output is no terminal and its width is nobody's screen."""

app = typer.Typer(help="Run a clipping call under many layouts in real processes, and grade it.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a stored run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON instead of the matrix.")]


@app.command("run")
def run(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUBJECT...", help="torch, shardproof, pkg.module:callable or file.py:callable", show_default=False
        ),
    ] = None,
    layout: Annotated[list[str] | None, typer.Option("--layout", help="Only this layout; may be repeated.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the layouts and stop.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="New folder for the run. Default: audit-runs/TIME.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that a collective may take.")] = 5.0,
    json_: AsJson = False,
) -> None:
    """Run subjects under layouts in real processes, store what is observed, grade it."""
    from shardproof.audit.layouts import named
    from shardproof.audit.run import plan_of
    from shardproof.audit.run import run as run_plan

    chosen = named(layout or ())
    if list_:
        for each in chosen:
            typer.echo(f"{each.name:14} {each.world_size} ranks  {each.title}")
        return
    if not subjects:
        raise InvalidValueError("Expected a subject, got none. Pass torch, shardproof, pkg.module:callable or a file.")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a console script, unlike `python -m`, does not look in the working directory
    plan = plan_of(subjects, chosen, timeout_s=timeout, command=["shardproof", *sys.argv[1:]])
    folder = out if out is not None else Path("audit-runs") / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    try:
        run_plan(folder, plan, progress_line())
    except KeyboardInterrupt:
        typer.echo("\nInterrupted; what was observed so far is stored and graded.", err=True)
    raise typer.Exit(show(folder, as_json=json_).verdict.exit_code)


@app.command("grade")
def grade(folder: Folder, json_: AsJson = False) -> None:
    """Grade the observations of a stored run again; cells that were not observed are not run."""
    from shardproof.audit.run import regrade
    from shardproof.audit.store import StoredRunError

    try:
        regrade(folder)
    except StoredRunError as error:
        typer.echo(f"shardproof: {error}", err=True)
        raise typer.Exit(Exit.MISMATCH) from error
    raise typer.Exit(show(folder, as_json=json_).verdict.exit_code)


@app.command("report")
def report(
    folder: Folder,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the page here.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the same as JSON here.")] = None,
) -> None:
    """Render a graded run; without a file to write, print the matrix."""
    from shardproof.audit.store import StoredRunError

    try:
        written = write_reports(folder, html=html, json_=json_)
    except StoredRunError as error:
        typer.echo(f"shardproof: {error}", err=True)
        raise typer.Exit(Exit.MISMATCH) from error
    if not written:
        show(folder, as_json=False)


def show(folder: Path, *, as_json: bool) -> AuditReport:
    """Print a graded run's report, the matrix and where the run lies or JSON alone, and return it."""
    from shardproof.audit.store import read_report
    from shardproof.report.audit_html import audit_json
    from shardproof.report.audit_terminal import print_audit

    stored = read_report(folder)
    if as_json:
        typer.echo(audit_json(stored), nl=False)
        return stored
    print_audit(stored, Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH))
    typer.echo(f"Stored in {folder}")
    return stored


def write_reports(folder: Path, *, html: Path | None, json_: Path | None, pages: Sequence[PageVerdict] = ()) -> bool:
    """Write the page and its JSON from a graded run; False when neither was asked for."""
    from shardproof.audit.store import read_report, write_whole
    from shardproof.report.audit_html import audit_html, audit_json

    stored = read_report(folder).model_copy(update={"pages": tuple(pages)})
    for path, text in ((html, audit_html), (json_, audit_json)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text(stored).encode())
    return html is not None or json_ is not None


def progress_line() -> Callable[[Progress], None]:
    """A line on standard error for each cell: rewritten in place on a terminal, one below the other elsewhere."""
    terminal = sys.stderr.isatty()

    def tell(step: Progress) -> None:
        text = f"[{step.number}/{step.total}] {step.subject} under {step.layout}"
        last = step.number == step.total
        sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if last else "") if terminal else f"{text}\n")
        sys.stderr.flush()

    return tell
