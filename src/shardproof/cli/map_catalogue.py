"""`shardproof map list`, `map new`, `map cases` and `map matrix`: the catalogue without isolation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import MEMBERS, plain_console, told
from shardproof.failures import record_text
from shardproof.failures.cases import (
    REGISTRY,
    assigned,
    read_registry,
    registry_gaps,
    registry_problems,
    registry_since,
    retired,
    write_registry,
)
from shardproof.failures.matrix import separation
from shardproof.failures.mechanism import (
    CATALOGUE,
    Mechanism,
    folders_named,
    load_catalogue,
    load_mechanism,
    members_folder,
)
from shardproof.failures.scaffold import scaffold
from shardproof.report.map_terminal import listing, matrix_lines


def list_(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Slugs or families; default: all.")] = None,
) -> None:
    """List mechanisms with the ids of their cases."""
    with told():
        entries = read_registry()
    rows = []
    for folder in folders_named(names or []):
        says = load_mechanism(folder).says
        ids = [entry.id for entry in entries if entry.mechanism == says.slug and entry.state != "withdrawn"]
        cases = f"{ids[0]} and {len(ids) - 1} more" if len(ids) > 1 else (ids or ["no id yet"])[0]
        rows.append((says.family, says.slug, cases, says.title))
    listing(rows, plain_console())
    raise typer.Exit(Exit.HELD if rows else Exit.NOTHING_RAN)


def new(
    slug: Annotated[str, typer.Argument(help="The new mechanism's name: lower case with hyphens.")],
    family: Annotated[str, typer.Option(help="The folder that it belongs in.")],
    contract: Annotated[str, typer.Option(help="An existing contract, or the id of a new one.")] = "clip-shards",
    catalogue: Annotated[Path, typer.Option(help="Where the catalogue lies.")] = CATALOGUE,
    members: Annotated[Path | None, MEMBERS] = None,
) -> None:
    """Make the folder of a new mechanism; `map lint` then says what has to be filled in."""
    for path in scaffold(slug, family, contract, catalogue=catalogue, members=members or members_folder()):
        typer.echo(f"made {path}")


def cases(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Slugs or families that get ids; default: all.")
    ] = None,
    assign: Annotated[
        bool, typer.Option("--assign", help="Give ids to variants that have none, after the last.")
    ] = False,
    withdraw: Annotated[str | None, typer.Option(help="An id to withdraw; it is run no more.")] = None,
    deprecate: Annotated[str | None, typer.Option(help="An id to deprecate; it is still run.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why it is withdrawn or deprecated, one line.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="An older registry; nothing of it may be gone or renumbered.")
    ] = None,
    catalogue: Annotated[Path, typer.Option(help="Where the catalogue lies.")] = CATALOGUE,
) -> None:
    """Hold the registry of case ids against its rules and the catalogue; with an option also change it.

    Exits 0 when all holds, 1 when an id is missing or gone, 4 when the registry breaks its own rules.
    """
    path = catalogue / REGISTRY
    with told():
        entries, mechanisms = read_registry(path), load_catalogue(catalogue)
        if assign or withdraw or deprecate:
            entries = retired(entries, withdraw, "withdrawn", reason) if withdraw else entries
            entries = retired(entries, deprecate, "deprecated", reason) if deprecate else entries
            entries = assigned(entries, _loaded(names, catalogue)) if assign else entries
            write_registry(entries, path)
        said = registry_problems(entries) + registry_gaps(entries, mechanisms)
        said += registry_since(read_registry(against), entries) if against else []
    for sentence in said:
        typer.echo(sentence)
    typer.echo(f"{len(entries)} cases of {len(mechanisms)} mechanisms, {len(said)} problems")
    raise typer.Exit(Exit.VIOLATED if said else Exit.HELD if entries else Exit.NOTHING_RAN)


def _loaded(names: list[str] | None, catalogue: Path) -> list[Mechanism]:
    return [load_mechanism(folder) for folder in folders_named(names or [], catalogue)]


def matrix(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Slugs or families; default: all.")] = None,
    variant: Annotated[int, typer.Option(min=1, help="The variant whose checks are asked.")] = 1,
    members: Annotated[Path | None, MEMBERS] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record.")] = False,
) -> None:
    """Say, for mechanisms that share a contract, which checks tell which implementations apart.

    Runs our own programs in this process. Implementations that no check tells apart are listed as equivalent.
    """
    mechanisms = _loaded(names, CATALOGUE)
    record = separation(mechanisms, members or members_folder(), variant)
    for line in [record_text(record)] if as_json else matrix_lines(record):
        typer.echo(line)
    raise typer.Exit(Exit.HELD if record.contracts else Exit.NOTHING_RAN)
