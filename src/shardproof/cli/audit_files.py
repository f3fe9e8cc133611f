"""`shardproof audit export`: gradients as files, for a job that any launcher starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.audit_run import chosen


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the export.")],
    layout: Annotated[
        list[str] | None, typer.Option("--layout", metavar="NAME", help="Only this layout; may be repeated.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only the quick layouts.")] = False,
    norm_type: Annotated[
        float, typer.Option("--norm-type", help="The order of the norm that the job is asked for: 1, 2, inf, ...")
    ] = 2.0,
) -> None:
    """Write every rank's gradients and a plan as files; your job writes results, `audit grade DIR` judges them.

    The job reads DIR/job/LAYOUT/job.json and DIR/job/LAYOUT/CALL/rankN.safetensors, and writes
    DIR/results/LAYOUT/CALL/rankN.safetensors (the clipped gradients) and rankN.json ({"norm": 5.0}).
    """
    from shardproof.audit.files import export as write
    from shardproof.audit.files import export_plan

    plan = export_plan(chosen(layout or (), quick), norm_type=norm_type, command=["shardproof", *sys.argv[1:]])
    digest = write(folder, plan)
    calls = sum(len(each.fixtures) for each in plan.layouts)
    typer.echo(f"Exported {calls} calls under {len(plan.layouts)} layouts to {folder}")
    typer.echo("Give the job DIR/job to read and DIR/results to write. Then:")
    typer.echo(f"  shardproof audit grade {folder} --plan-sha256 {digest}")
