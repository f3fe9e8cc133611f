"""`make demo`: verify the published pages, audit torch's clip and our own, write build/demo/report.html and .json."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from shardproof.audit.layouts import DEMO, named
from shardproof.audit.run import plan_of, run
from shardproof.audit.store import PLAN
from shardproof.cli.audit_run import progress_line
from shardproof.cli.audit_stored import Files, show, write_reports
from shardproof.cli.exits import Exit
from shardproof.cli.map_ import EXITS
from shardproof.failures import verify_page
from shardproof.records.audit import Verdict
from shardproof.records.page import PageVerdict

OURS = "shardproof"


def demo(
    pages: Annotated[Path, typer.Argument(help="A folder of published pages (*.txt).")] = Path("../shared/seeds"),
    out: Annotated[Path, typer.Option("--out", help="Where run and reports are written.")] = Path("build/demo"),
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that a collective may take.")] = 5.0,
) -> None:
    """Exit 0 when the pages verified and shardproof passed everywhere; that torch fails somewhere is the point."""
    verified = verify_pages(pages)
    typer.echo("Auditing torch.nn.utils.clip_grad_norm_ and shardproof in real processes (about twenty seconds).")
    folder = fresh(out / "run")
    command = ["python", "-m", "shardproof.cli.demo", *sys.argv[1:]]
    verdict = run(folder, plan_of(["torch", OURS], named(DEMO), timeout_s=timeout, command=command), progress_line())
    html, json_ = out / "report.html", out / "report.json"
    write_reports(folder, Files(html=html, json=json_), pages=verified)
    show(folder, as_json=False)
    typer.echo(f"Wrote {html} and {json_}")
    raise typer.Exit(worst([*(EXITS[page.verdict] for page in verified), of_subject(verdict, OURS)]))


def verify_pages(folder: Path) -> list[PageVerdict]:
    """Verify each page of the folder and say what came of it."""
    files = sorted(folder.glob("*.txt"))
    if not files:
        typer.echo(f"No published page in {folder}: none is verified, the audit goes on.")
    verified = []
    for file in files:
        typer.echo(f"Verifying {file.name} by running both of its programs.")
        page = verify_page(file)
        typer.echo(
            f"{page.page.id}, {page.page.title}: {page.verdict}, "
            f"{page.agreeing} of {page.observations} observations agree"
        )
        verified.append(page)
    return verified


def of_subject(verdict: Verdict, subject: str) -> Exit:
    """What one subject's cells come to."""
    words = {cell.verdict for cell in verdict.cells if cell.subject == subject and not cell.control}
    if words.intersection(("fail", "error", "hang", "crash")):
        return Exit.VIOLATED
    return Exit.HELD if words == {"pass"} else Exit.COULD_NOT_TELL


def worst(exits: Iterable[Exit]) -> Exit:
    """The exit code that is reported when several things were checked."""
    order: Sequence[Exit] = (Exit.MISMATCH, Exit.VIOLATED, Exit.COULD_NOT_TELL, Exit.HELD)
    return min(exits, key=order.index)


def fresh(folder: Path) -> Path:
    """Clear away the stored run of an earlier demo, and nothing else."""
    if (folder / PLAN).is_file():
        shutil.rmtree(folder)
    return folder


def main() -> None:
    """Run the demo as a command."""
    typer.run(demo)


if __name__ == "__main__":
    main()
