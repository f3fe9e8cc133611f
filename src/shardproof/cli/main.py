"""The command `shardproof`: one file for each verb."""

from __future__ import annotations

import sys
import traceback

import typer

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
