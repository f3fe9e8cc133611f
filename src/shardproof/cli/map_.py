"""`shardproof map`: the Failure Map, the executable catalogue of mistakes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli import map_catalogue, map_export, map_lint, map_publish, map_site, map_split, map_try, map_verify
from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import plain_console
from shardproof.failures import record_text, verify_page, write_record
from shardproof.isolation import IsolationUnavailableError
from shardproof.report.page import render_page

app = typer.Typer(help="The Failure Map: mistakes as executable cases, verified by running them.")

EXITS = {
    "held": Exit.HELD,
    "violated": Exit.VIOLATED,
    "could not tell": Exit.COULD_NOT_TELL,
    "mismatch": Exit.MISMATCH,
}


class Held(StrEnum):
    """How the page's programs are held."""

    PROCESS = "process"
    NAMESPACES = "namespaces"
    NONE = "none"


@app.callback()
def map_() -> None:
    """The Failure Map: mistakes as executable cases, verified by running them."""


app.command("verify")(map_verify.verify)
app.command("show")(map_verify.show)
app.command("list")(map_catalogue.list_)
app.command("lint")(map_lint.lint)
app.command("new")(map_catalogue.new)
app.command("cases")(map_catalogue.cases)
app.command("matrix")(map_catalogue.matrix)
app.command("groups")(map_split.groups)
app.command("split")(map_split.split)
app.command("split-check")(map_split.split_check)
app.command("try")(map_try.try_)
app.command("publish")(map_publish.publish)
app.command("leaks")(map_publish.leaks)
app.command("export")(map_export.export)
app.command("read")(map_export.read)
app.command("site")(map_site.site)


@app.command("verify-page")
def verify(
    file: Annotated[Path, typer.Argument(help="A published page as text, with its exact bytes.")],
    level: Annotated[
        Held, typer.Option(help="How its programs are held: process (limits, own tree), namespaces, or none.")
    ] = Held.PROCESS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record instead of tables.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the record to this file, whole or not at all.")] = None,
) -> None:
    """Run a published page again and compare every digest, exit code and observation with its record.

    Exits 0 when all agree, 1 when something recorded was not reproduced, 2 when the file is no such page, 3 when
    no verdict could be reached, 4 when a source does not match its digest.
    """
    try:
        verdict = verify_page(file, level=level.value)
    except IsolationUnavailableError as error:
        typer.echo(f"shardproof: could not tell: {error}", err=True)
        raise typer.Exit(Exit.COULD_NOT_TELL) from error
    record = record_text(verdict)
    if out is not None:
        write_record(out, record + "\n")
    if as_json:
        typer.echo(record)
    else:
        render_page(verdict, plain_console())
    raise typer.Exit(EXITS[verdict.verdict])
