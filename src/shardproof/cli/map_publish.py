"""`shardproof map publish` and `map leaks`: the two tiers, and the search for what must not be open."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import MEMBERS, told
from shardproof.errors import InvalidValueError
from shardproof.failures import record_text
from shardproof.failures.cases import read_registry
from shardproof.failures.groups import groups_of
from shardproof.failures.leaks import NothingHeldBackError, look_through, secrets_of
from shardproof.failures.mechanism import load_catalogue, members_folder
from shardproof.failures.plan import Plan
from shardproof.failures.selection import choose, plans
from shardproof.failures.tiers import LeakError, publish_member, publish_open, results_of
from shardproof.records.map import CaseResult
from shardproof.report.map_share import leak_lines


class Tier(StrEnum):
    """What is published."""

    OPEN = "open"
    MEMBER = "member"


def publish(
    out: Annotated[Path, typer.Argument(help="A new or empty folder; it appears whole or not at all.")],
    tier: Annotated[Tier, typer.Option(help="open: without anything held back; member: what is held back.")],
    names: Annotated[list[str] | None, typer.Option("--case", help="Ids, slugs or families; default: all.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="results.jsonl of `map verify --out`, for the observations.")
    ] = None,
    wheel: Annotated[
        list[Path] | None, typer.Option(help="A built wheel or another file to look through for leaks, too.")
    ] = None,
    recipient: Annotated[
        list[str] | None, typer.Option(help="Encrypt the member tier to this age recipient (age1..., ssh-...).")
    ] = None,
    members: Annotated[Path | None, MEMBERS] = None,
) -> None:
    """Write a tier of the map; the open one is looked through for everything held back before it appears.

    Exits 0 when it was written, 1 when a leak was found, 2 when it cannot be written, 3 when the repairs are not
    here to be looked for, 4 when the results are of other cases.
    """
    where = members or members_folder()
    with told():
        cases = list(plans(choose(names or []), where))
        seen = results_of(results, cases) if results else None
        if tier is Tier.MEMBER:
            count = _member(out, cases, where, seen, recipient or [])
            typer.echo(f"{count} files with what is held back of {len(cases)} cases")
        else:
            _open(out, cases, where, seen, wheel or [], bool(recipient))


def leaks(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders to look through; archives are opened.")],
    members: Annotated[Path | None, MEMBERS] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record.")] = False,
) -> None:
    """Look for repairs, held-back checks and their digests, under other names and in other forms too.

    Exits 0 when nothing was found, 1 when something was, 2 when something cannot be read, 3 when no repairs are here.
    """
    where = members or members_folder()
    with told():
        try:
            secrets = secrets_of(load_catalogue(), where, plans(choose([]), where))
        except NothingHeldBackError as error:
            raise _untold(error) from error
        record = look_through(paths, secrets)
    for line in [record_text(record)] if as_json else leak_lines(record):
        typer.echo(line)
    raise typer.Exit(Exit.VIOLATED if record.leaks else Exit.HELD)


def _open(
    out: Path,
    cases: list[Plan],
    where: Path | None,
    seen: dict[str, CaseResult] | None,
    wheels: list[Path],
    sealed: bool,
) -> None:
    if sealed:
        raise InvalidValueError("Expected --recipient with the member tier only, got it with the open tier.")
    mechanisms = load_catalogue()
    groups = groups_of(mechanisms, read_registry(), where)
    try:
        secrets = secrets_of(mechanisms, where, plans(choose([]), where))
        record = publish_open(out, cases, groups, secrets, results=seen, wheels=wheels)
    except NothingHeldBackError as error:
        raise _untold(error) from error
    except LeakError as error:
        for line in leak_lines(error.record):
            typer.echo(line)
        typer.echo("nothing was written")
        raise typer.Exit(Exit.VIOLATED) from error
    typer.echo(f"{len(cases)} cases in {out}; {leak_lines(record)[-1]}")


def _member(
    out: Path, cases: list[Plan], where: Path | None, seen: dict[str, CaseResult] | None, recipients: list[str]
) -> int:
    groups = groups_of(load_catalogue(), read_registry(), where)
    return publish_member(out, cases, groups, results=seen, recipients=recipients)


def _untold(error: NothingHeldBackError) -> typer.Exit:
    typer.echo(f"shardproof: could not tell: {error}", err=True)
    return typer.Exit(Exit.COULD_NOT_TELL)
