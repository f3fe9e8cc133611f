"""`shardproof map lint`: the catalogue's files checked without isolation, for authors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import MEMBERS, VARIANTS, numbers, told
from shardproof.failures.cases import read_registry, registry_gaps
from shardproof.failures.lint import lint_mechanism
from shardproof.failures.mechanism import folders_named, load_catalogue, members_folder
from shardproof.failures.roles import try_all


def lint(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Slugs, families or folders; default: the catalogue.")
    ] = None,
    roles: Annotated[
        bool, typer.Option("--roles", help="Also run each variant here, without isolation, against the role rules.")
    ] = False,
    variants: Annotated[str, VARIANTS] = "1-250",
    members: Annotated[Path | None, MEMBERS] = None,
) -> None:
    """Check mechanisms' files: schema, names, prose, syntax, checks; with --roles also what the programs do.

    Without names the registry of ids is held against the catalogue too. Exits 0 when nothing is wrong, 1 when something
    is, 2 when a name is unknown, 4 when the registry breaks its rules, 5 when there is nothing to check.
    """
    folders = folders_named(names or [])
    repairs = members or members_folder()
    said = [problem for folder in folders for problem in lint_mechanism(folder, repairs)]
    if not names and not said:
        with told():
            said += registry_gaps(read_registry(), load_catalogue())
    if roles and not said:
        trial = try_all(folders, numbers(variants), repairs)
        said += trial.broken
        typer.echo(f"{trial.tried} variants tried; repairs held back: {', '.join(trial.held_back) or 'none'}")
    elif roles:
        typer.echo("variants not tried: the files come first")
    for problem in said:
        typer.echo(problem)
    typer.echo(f"{len(folders)} mechanisms, {len(said)} problems")
    raise typer.Exit(Exit.NOTHING_RAN if not folders else Exit.VIOLATED if said else Exit.HELD)
