"""`shardproof map groups`, `map split` and `map split-check`: which cases may not be parted."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import MEMBERS, told
from shardproof.failures import record_text
from shardproof.failures.cases import read_registry
from shardproof.failures.groups import Unit, groups_of, units
from shardproof.failures.mechanism import load_catalogue, members_folder
from shardproof.failures.plan import catalogue_digest
from shardproof.failures.selection import choose, plans
from shardproof.failures.split_check import check_split
from shardproof.failures.splits import SplitError, make_split, read_split, write_split
from shardproof.records.map import CaseEntry
from shardproof.records.map_share import SplitLevel
from shardproof.report.map_share import group_lines, split_check_lines, split_lines


class Whole(StrEnum):
    """What a split keeps whole."""

    GROUP = "group"
    BLOCK = "block"


LEVEL = typer.Option(help="What stays whole: each evaluation group, or the wider block that it belongs to.")
JSON = typer.Option("--json", help="Print the record.")
EXITS = {"held": Exit.HELD, "violated": Exit.VIOLATED, "mismatch": Exit.MISMATCH}


def groups(
    level: Annotated[Whole, LEVEL] = Whole.GROUP,
    members: Annotated[Path | None, MEMBERS] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """List evaluation groups: mechanisms that stay on one side of any split, and what joins them."""
    with told():
        record = groups_of(load_catalogue(), read_registry(), members or members_folder(), level.value)
    for line in [record_text(record)] if as_json else group_lines(record):
        typer.echo(line)
    raise typer.Exit(Exit.HELD if record.groups else Exit.NOTHING_RAN)


def split(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, whole or not at all.")],
    seed: Annotated[int, typer.Option(help="Decides the order in which groups are assigned.")] = 0,
    fraction: Annotated[float, typer.Option(help="The share of cases for test, between 0 and 1.")] = 0.25,
    level: Annotated[Whole, LEVEL] = Whole.GROUP,
    against: Annotated[
        Path | None, typer.Option(help="A split to continue: its cases keep their sides, new ones are added.")
    ] = None,
    members: Annotated[Path | None, MEMBERS] = None,
) -> None:
    """Split the catalogue's cases into train and test by whole evaluation groups.

    Exits 0 when the split was written, 1 when none can be made as asked, 2 when --against is no split.
    """
    with told():
        placed, entries, digest = _catalogue(level.value, members)
        old = None if against is None else read_split(against)
        try:
            made = make_split(
                placed,
                entries,
                seed=seed,
                fraction=fraction,
                level=level.value,
                digest=digest,
                old=old,
            )
        except SplitError as error:
            typer.echo(f"shardproof: {error}", err=True)
            raise typer.Exit(Exit.VIOLATED) from error
    write_split(out, made)
    for line in split_lines(made):
        typer.echo(line)


def split_check(
    file: Annotated[Path, typer.Argument(help="A split: a record of `map split`, or lists of ids train and test.")],
    level: Annotated[Whole | None, typer.Option(help="What has to be whole; default: what the file says.")] = None,
    members: Annotated[Path | None, MEMBERS] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Check a split, whoever made it: no group on two sides, all ids known, none missing, no side empty.

    Exits 0 when all holds, 1 when something is wrong, 2 when the file is no split, 4 when it names the digest of
    another catalogue.
    """
    with told():
        found = read_split(file)
        asked: SplitLevel = level.value if level else found.level
        placed, entries, digest = _catalogue(asked, members)
        record = check_split(found, placed, entries, digest, level=asked)
    for line in [record_text(record)] if as_json else split_check_lines(record):
        typer.echo(line)
    raise typer.Exit(EXITS[record.verdict])


def _catalogue(level: SplitLevel, members: Path | None) -> tuple[tuple[Unit, ...], tuple[CaseEntry, ...], str]:
    placed = units(load_catalogue(), members or members_folder(), level)
    # Nothing held back is part of the digest, so repairs are not read for it.
    return placed, read_registry(), catalogue_digest(plans(choose([]), None))
