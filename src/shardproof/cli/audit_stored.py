"""`shardproof audit grade`, `report`, `diff`, `replay` and `doctor`: what needs no subject to run."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from shardproof.cli.exits import Exit
from shardproof.errors import InvalidValueError

if TYPE_CHECKING:
    from shardproof.records.audit import AuditReport, CellPlan
    from shardproof.records.page import PageVerdict

PLAIN_WIDTH = 120
"""Columns where the output is no terminal and its width is nobody's screen."""

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a stored run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON instead of the matrix.")]
HtmlFile = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report as one page.")]
JunitFile = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML, one case a cell.")]
SarifFile = Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF, one result a violation.")]


@dataclass(frozen=True)
class Files:
    """Where reports are written; None: not asked for."""

    html: Path | None = None
    json: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None


def grade(
    folder: Folder,
    profile: Annotated[str, typer.Option("--profile", help="Which clauses decide: core or strict.")] = "core",
    waive: Annotated[
        list[str] | None,
        typer.Option("--waive", metavar="CLAUSE=REASON", help="A violation of this clause decides nothing."),
    ] = None,
    plan_sha256: Annotated[
        str | None, typer.Option("--plan-sha256", metavar="SHA256", help="Refuse a plan of another digest.")
    ] = None,
    json_: AsJson = False,
) -> None:
    """Grade the observations of a stored run again, or the results of an export; what was not observed is not run."""
    from shardproof.audit.files import collect, is_export
    from shardproof.audit.run import regrade
    from shardproof.audit.store import read_plan, same_plan
    from shardproof.cli.audit_run import ProfileName, waivers

    if profile not in list(ProfileName):
        raise InvalidValueError(f"Expected --profile core or strict, got {profile!r}.")
    with refusing():
        same_plan(read_plan(folder)[1], plan_sha256)
        if is_export(folder):
            collect(folder)
        regrade(folder, profile=ProfileName(profile).value, waivers=waivers(waive))
    raise typer.Exit(show(folder, as_json=json_).verdict.exit_code)


def report(
    folder: Folder,
    html: HtmlFile = None,
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the same as JSON here.")] = None,
    junit: JunitFile = None,
    sarif: SarifFile = None,
) -> None:
    """Render a graded run; without a file to write, print the matrix."""
    from shardproof.audit.run import believed

    with refusing():
        believed(folder)
        written = write_reports(folder, Files(html=html, json=json_, junit=junit, sarif=sarif))
        if not written:
            show(folder, as_json=False)


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The folder of a graded run.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The folder of another one.")],
    json_: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two graded runs cell by cell; exits 0 when no cell changed, 1 when one did."""
    from shardproof.audit.diff import diff as compare
    from shardproof.audit.run import believed
    from shardproof.report.audit_diff import print_diff

    with refusing():
        compared = compare(believed(old), believed(new))
    if json_:
        typer.echo(compared.model_dump_json(indent=1))
    else:
        print_diff(compared, _console())
    raise typer.Exit(Exit.VIOLATED if compared.changes else Exit.HELD)


def replay(
    folder: Folder,
    cell: Annotated[str, typer.Argument(metavar="CELL", help="SUBJECT/LAYOUT, or the number of a cell in the report.")],
) -> None:
    """Print the one command that runs a cell of a stored run again."""
    from shardproof.audit.run import believed

    with refusing():
        stored = believed(folder)
    planned = found(stored, cell)
    subject = next(subject for subject in stored.plan.subjects if subject.name == planned.subject)
    words = ["shardproof", "audit", "run", subject.spec, "--layout", planned.layout]
    words += ["--timeout", f"{stored.plan.timeout_s:g}", "--profile", stored.verdict.profile]
    if subject.framework == "files":
        words = ["shardproof", "audit", "export", "DIR", "--layout", planned.layout]
    typer.echo(shlex.join(words))
    if subject.file and not _unchanged(Path(subject.file), subject.sha256):
        typer.echo(f"Note: {subject.file} is not the file that the run audited (its SHA-256 differs).", err=True)


def doctor(json_: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False) -> None:
    """Say what an audit finds here: packages, back ends, isolation levels, and whether ranks start."""
    from shardproof.audit.doctor import doctor as look
    from shardproof.report.audit_diff import print_doctor

    looked = look()
    if json_:
        typer.echo(looked.model_dump_json(indent=1))
    else:
        print_doctor(looked, _console())
    ranks = next(line for line in looked.lines if line.what == "ranks")
    raise typer.Exit(Exit.HELD if ranks.found else Exit.COULD_NOT_TELL)


def show(folder: Path, *, as_json: bool) -> AuditReport:
    """Print a graded run's report, the matrix and where the run lies or JSON alone, and return it."""
    from shardproof.audit.store import read_report
    from shardproof.report.audit_html import audit_json
    from shardproof.report.audit_terminal import print_audit

    stored = read_report(folder)
    if as_json:
        typer.echo(audit_json(stored), nl=False)
        return stored
    print_audit(stored, _console())
    typer.echo(f"Stored in {folder}")
    return stored


def write_reports(folder: Path, files: Files, pages: Sequence[PageVerdict] = ()) -> bool:
    """Write the files that were asked for from a graded run; False when none was."""
    from shardproof.audit.store import read_report, write_whole
    from shardproof.report.audit_html import audit_html, audit_json
    from shardproof.report.junit import audit_junit
    from shardproof.report.sarif import audit_sarif

    stored = read_report(folder).model_copy(update={"pages": tuple(pages)})
    texts = (
        (files.html, audit_html),
        (files.json, audit_json),
        (files.junit, audit_junit),
        (files.sarif, lambda one: audit_sarif(one, Path.cwd())),
    )
    wanted = [(path, text) for path, text in texts if path is not None]
    for path, text in wanted:
        write_whole(path, text(stored).encode())
    return bool(wanted)


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """End with the exit code for a mismatch where a stored run does not hold together."""
    from shardproof.audit.store import StoredRunError

    try:
        yield
    except StoredRunError as error:
        typer.echo(f"shardproof: {error}", err=True)
        raise typer.Exit(Exit.MISMATCH) from error


def found(stored: AuditReport, cell: str) -> CellPlan:
    """The planned cell of that name or number; raises InvalidValueError where there is none."""
    cells = [each for each in stored.plan.cells if not each.control]
    unsettled = [each.cell for each in stored.verdict.cells if not each.control and each.verdict != "pass"]
    name = unsettled[int(cell) - 1] if cell.isdecimal() and 0 < int(cell) <= len(unsettled) else cell
    named = [each for each in cells if each.id == name]
    if not named:
        raise InvalidValueError(
            f"Expected a cell of the run, got {cell!r}. Its cells: {', '.join(each.id for each in cells)}; "
            f"a number from 1 to {len(unsettled)} is one that did not pass, as the report counts them."
        )
    return named[0]


def _unchanged(file: Path, sha256: str | None) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
