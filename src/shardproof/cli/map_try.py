"""`shardproof map try`: a candidate repair judged."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import MEMBERS, told
from shardproof.errors import InvalidValueError
from shardproof.failures import record_text, write_record
from shardproof.failures.candidates import HeldBackError, judge_candidate, read_candidate
from shardproof.failures.mechanism import load_mechanism, members_folder
from shardproof.failures.selection import choose
from shardproof.report.map_share import try_lines

EXITS = {"passes": Exit.HELD, "fails": Exit.VIOLATED, "could not tell": Exit.COULD_NOT_TELL}


class HoldingLevel(StrEnum):
    """Levels that keep a candidate from reading the answers."""

    PROCESS = "process"
    NAMESPACES = "namespaces"


def try_(
    name: Annotated[str, typer.Argument(help="One case: an id, an alias, or slug/variant.")],
    candidate: Annotated[Path, typer.Argument(help="A Python file that defines solve, as the contract asks.")],
    held_back: Annotated[
        bool, typer.Option("--held-back", help="Ask the held-back checks, and variants that are not published, too.")
    ] = False,
    level: Annotated[
        HoldingLevel, typer.Option(help="How it is held: process (limits, own tree), or namespaces.")
    ] = HoldingLevel.PROCESS,
    members: Annotated[Path | None, MEMBERS] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the record to this file, whole or not at all.")] = None,
) -> None:
    """Judge a candidate repair of a case: it gets arguments only, and what it returns is compared here.

    Exits 0 when it passes, 1 when it fails, 2 when the case or the file cannot be used, 3 when no verdict could be
    reached, the level cannot be had, or what is held back is not here.
    """
    with told():
        chosen = choose([name])
        if sum(len(one.variants) for one in chosen) != 1:
            raise InvalidValueError(f"Expected one case, got {name!r}.")
        (case, n), mechanism = chosen[0].variants[0], load_mechanism(chosen[0].folder)
        try:
            record = judge_candidate(
                mechanism,
                case,
                n,
                read_candidate(candidate),
                members=members or members_folder(),
                held_back=held_back,
                level=level.value,
            )
        except HeldBackError as error:
            typer.echo(f"shardproof: could not tell: {error}", err=True)
            raise typer.Exit(Exit.COULD_NOT_TELL) from error
    text = record_text(record)
    if out is not None:
        write_record(out, text + "\n")
    for line in [text] if as_json else try_lines(record):
        typer.echo(line)
    raise typer.Exit(EXITS[record.verdict])
