"""`shardproof audit`: run somebody's clipping under many layouts and grade it."""

from __future__ import annotations

import typer

from shardproof.cli import audit_files, audit_run, audit_shrink, audit_stored

app = typer.Typer(help="Run a clipping call under many layouts in real processes, and grade it.", no_args_is_help=True)
app.command("run")(audit_run.run)
app.command("export")(audit_files.export)
app.command("grade")(audit_stored.grade)
app.command("report")(audit_stored.report)
app.command("diff")(audit_stored.diff)
app.command("replay")(audit_stored.replay)
app.command("doctor")(audit_stored.doctor)
app.command("shrink")(audit_shrink.shrink)
app.command("repro")(audit_shrink.repro)
app.command("findings")(audit_shrink.findings)
