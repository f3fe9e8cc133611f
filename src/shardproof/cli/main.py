"""The command `shardproof`: one file for each verb."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

import shardproof
from shardproof.cli import audit, clip, map_
from shardproof.cli.exits import Exit
from shardproof.errors import ShardproofError

app = typer.Typer(
    name="shardproof",
    help="Gradient clipping by the true global norm under every sharding, and the proof that a stack does it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"shardproof {shardproof.__version__}")
        raise typer.Exit


@app.callback()
def shardproof_(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Gradient clipping by the true global norm under every sharding, and the proof that a stack does it."""


app.command("clip")(clip.clip)
app.add_typer(audit.app, name="audit")
app.add_typer(map_.app, name="map")


def run() -> None:
    """Run the command line; a refused input exits with 2, our own failure with 70."""
    try:
        app()
    except ShardproofError as error:
        typer.echo(f"shardproof: {error}", err=True)
        sys.exit(Exit.USAGE)
    except Exception:
        traceback.print_exc()
        typer.echo("shardproof: this is our own fault, not your input's; please report it.", err=True)
        sys.exit(Exit.OUR_FAULT)
