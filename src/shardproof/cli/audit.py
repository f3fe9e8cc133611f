"""`shardproof audit`: run somebody's clipping under many layouts and grade it."""

from __future__ import annotations

import typer

app = typer.Typer(help="Run a clipping call under many layouts in real processes, and grade it.")
