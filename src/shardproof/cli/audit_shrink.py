"""`shardproof audit shrink` and `shardproof audit repro`: a failing cell as a few numbers, or as a file of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardproof.cli.audit_stored import Folder, found, refusing
from shardproof.cli.exits import Exit

if TYPE_CHECKING:
    from shardproof.records.shrunk import Shrunk

CELL_HELP = "SUBJECT/LAYOUT, or the number of a cell in the report."
Cell = Annotated[str, typer.Argument(metavar="CELL", help=CELL_HELP)]


def shrink(
    folder: Folder,
    cell: Cell,
    clause: Annotated[
        str | None, typer.Option("--clause", metavar="CLAUSE", help="The clause that has to stay violated.")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="How long smaller cases are looked for.")] = 120.0,
    save_case: Annotated[
        Path | None,
        typer.Option(
            "--save-case",
            metavar="DIR",
            help="Write the case as a new mechanism of the map into this new folder FAMILY/SLUG.",
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the stored record instead of the lines.")] = False,
) -> None:
    """Reduce a failing cell to the fewest ranks, tensors and simplest numbers that still fail.

    The result is stored in the run's folder. Exits 0 when a case was found, 3 when the failure was not seen again.
    """
    from shardproof.audit import store
    from shardproof.audit.reproduction_cell import observation_of
    from shardproof.audit.shrink import NotShrunkError
    from shardproof.audit.shrink import shrink as search
    from shardproof.audit.shrink_store import write
    from shardproof.report.shrunk import shrunk_text

    with refusing():
        planned = found(store.read_report(folder), cell)
        plan, digest = store.read_plan(folder)
        observed = observation_of(folder, plan, digest, planned.id)
    try:
        shrunk = search(plan, digest, planned, observed, seconds=seconds, clause=clause, progress=_say)
    except NotShrunkError as error:
        typer.echo(f"shardproof: {error}", err=True)
        raise typer.Exit(Exit.COULD_NOT_TELL) from error
    path = write(folder, shrunk)
    typer.echo(shrunk.model_dump_json(indent=1) if json_ else f"{shrunk_text(shrunk)}\nStored in {path}")
    if save_case is not None:
        _save(folder, shrunk, save_case)


def repro(
    folder: Folder,
    cell: Cell,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the file here instead of printing it.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Show the layout as audited, although the cell was shrunk.")
    ] = False,
    clause: Annotated[
        str | None, typer.Option("--clause", metavar="CLAUSE", help="Show a call that violates this clause.")
    ] = None,
) -> None:
    """Write one file that shows a failing cell without shardproof, to attach to a report.

    The file needs torch (and the subject's own library) only, exits 1 when it sees the failure and 0 when all is right.
    """
    from shardproof.audit import store
    from shardproof.audit.reproduction import reproduction
    from shardproof.audit.reproduction_cell import shown_of

    with refusing():
        shown = shown_of(folder, found(store.read_report(folder), cell), whole=whole, clause=clause)
    text = reproduction(shown, out.name if out is not None else "reproduction.py")
    if out is None:
        typer.echo(text, nl=False)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    store.write_whole(out, text.encode())
    typer.echo(f"Wrote {out}; run it with: python {out}")


def findings(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of graded runs of built-in subjects.")],
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder that gets findings.md.")],
) -> None:
    """Write the page of findings from stored runs: a record, the page, and a reproduction of each failing cell.

    Each reproduction is run once. Exits 0 when all of them showed their failure, 1 when one did not.
    """
    from shardproof.audit.findings import collect
    from shardproof.audit.store import write_whole
    from shardproof.report.findings import findings_page

    with refusing():
        found = collect(runs, into, lambda file: typer.echo(f"running {file}", err=True))
    write_whole(into / "findings.md", findings_page(found).encode())
    cells = [cell for subject in found.subjects for cell in subject.cells if cell.reproduction]
    unseen = [cell.reproduction for cell in cells if cell.exit_code != 1]
    typer.echo(f"Wrote {into / 'findings.md'}; {len(cells) - len(unseen)} of {len(cells)} reproductions exit 1.")
    for file in unseen:
        typer.echo(f"not reproduced: {file}")
    raise typer.Exit(Exit.VIOLATED if unseen else Exit.HELD)


def _save(folder: Path, shrunk: Shrunk, into: Path) -> None:
    from shardproof.audit.save_case import save_case
    from shardproof.audit.store import read_report

    saved = save_case(shrunk, read_report(folder).verdict.diagnoses, into)
    by = saved.implementation
    whose = f", after {by.mechanism} ({by.implementation})" if by is not None else ""
    typer.echo(f"Wrote {into}{whose}. A person has to write:", err=True)
    for line in saved.left:
        typer.echo(f"  {line}", err=True)


def _say(text: str) -> None:
    sys.stderr.write(f"looking for the {text}\n")
    sys.stderr.flush()
