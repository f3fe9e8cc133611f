"""`shardproof map`: the Failure Map, the executable catalogue of mistakes."""

from __future__ import annotations

import typer

app = typer.Typer(help="The Failure Map: mistakes as executable cases, verified by running them.")
