"""`shardproof map export` and `map read`: cases in other forms, and a published page as a case."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import MEMBERS, told
from shardproof.errors import InvalidValueError
from shardproof.failures import record_text, write_record
from shardproof.failures.cases import read_registry
from shardproof.failures.environment import environment
from shardproof.failures.exports.croissant import croissant_files
from shardproof.failures.exports.huggingface import huggingface_files
from shardproof.failures.exports.inspect_task import inspect_files
from shardproof.failures.exports.intoto import intoto_files
from shardproof.failures.exports.jsonl import bundle_files, json_files, jsonl_files
from shardproof.failures.folders import File, write_folder
from shardproof.failures.groups import groups_of, units
from shardproof.failures.imported import PageDigestError, PageUnclearError, import_page
from shardproof.failures.leaks import NothingHeldBackError, look_through, secrets_of
from shardproof.failures.mechanism import load_catalogue, members_folder
from shardproof.failures.page import read_page
from shardproof.failures.plan import Plan, catalogue_digest
from shardproof.failures.selection import choose, plans
from shardproof.failures.split_check import check_split
from shardproof.failures.splits import read_split
from shardproof.failures.tiers import LeakError, group_by_mechanism, results_of
from shardproof.records.map_share import Split
from shardproof.report.map_share import leak_lines


class Format(StrEnum):
    """What the cases are written as."""

    JSON = "json"
    JSONL = "jsonl"
    BUNDLE = "bundle"
    CROISSANT = "croissant"
    HUGGINGFACE = "huggingface"
    INSPECT = "inspect"
    INTOTO = "in-toto"


def export(
    out: Annotated[Path, typer.Argument(help="A new or empty folder; it appears whole or not at all.")],
    as_: Annotated[Format, typer.Option("--format", help="What the cases are written as.")],
    names: Annotated[list[str] | None, typer.Option("--case", help="Ids, slugs or families; default: all.")] = None,
    split: Annotated[Path | None, typer.Option(help="A split of all cases, for the Hugging Face folder.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="results.jsonl of `map verify --out`, for in-toto statements.")
    ] = None,
    members: Annotated[Path | None, MEMBERS] = None,
) -> None:
    """Write what is open of cases in a form that others read; where repairs are here, it is looked through for leaks.

    Exits 0 when it was written, 1 when a leak was found or the split does not hold, 2 when it cannot be written, 4 when
    the results or the split are of other cases, 5 when nothing was selected.
    """
    where = members or members_folder()
    with told():
        # Without members: not even a mistake here could write a repair.
        cases = list(plans(choose(names or []), None))
        if not cases:
            raise typer.Exit(Exit.NOTHING_RAN)
        checked = _split(split, where) if split else None
        files = _files(as_, cases, where, checked, results)
        try:
            count = write_folder(out, files, lambda folder: _approve(folder, where))
        except LeakError as error:
            for line in leak_lines(error.record):
                typer.echo(line)
            raise typer.Exit(Exit.VIOLATED) from error
    typer.echo(f"{count} files about {len(cases)} cases in {out}")


def read(
    page: Annotated[Path, typer.Argument(help="A published page as text, with its exact bytes.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the case here, instead of printing it.")
    ] = None,
) -> None:
    """Import a published page as a case, with its checks' arguments; its repair stays held back.

    Exits 0 when it was read, 2 when it is no such page, 3 when its checks cannot be had, 4 when a source does not match
    its digest.
    """
    with told():
        try:
            case = import_page(read_page(page), read_registry())
        except PageDigestError as error:
            typer.echo(f"shardproof: {error}", err=True)
            raise typer.Exit(Exit.MISMATCH) from error
        except PageUnclearError as error:
            typer.echo(f"shardproof: could not tell: {error}", err=True)
            raise typer.Exit(Exit.COULD_NOT_TELL) from error
    text = record_text(case)
    if out is None:
        typer.echo(text)
    else:
        write_record(out, text + "\n")
        typer.echo(f"{case.id}: {len(case.checks)} checks; here: {case.known_as or 'no case of ours'}")


def _files(
    as_: Format, cases: list[Plan], where: Path | None, split: Split | None, results: Path | None
) -> Iterable[File]:
    groups = group_by_mechanism(groups_of(load_catalogue(), read_registry(), where))
    if (split is not None) != (as_ is Format.HUGGINGFACE) and split is not None:
        raise InvalidValueError("Expected --split with --format huggingface only.")
    if (results is None) != (as_ is not Format.INTOTO):
        raise InvalidValueError("Expected --results with --format in-toto, and with no other.")
    if as_ is Format.INTOTO and results is not None:
        return intoto_files(cases, results_of(results, cases))
    digest = catalogue_digest(cases)
    made: dict[Format, Iterable[File]] = {
        Format.JSON: json_files(cases),
        Format.JSONL: jsonl_files(cases, groups),
        Format.BUNDLE: bundle_files(cases, groups),
        Format.CROISSANT: croissant_files(cases, groups, digest, environment().shardproof),
        Format.HUGGINGFACE: huggingface_files(cases, groups, digest, split),
        Format.INSPECT: inspect_files(cases),
    }
    return made[as_]


def _split(path: Path, where: Path | None) -> Split:
    found = read_split(path)
    if not isinstance(found, Split):
        raise InvalidValueError(f"Expected a record of `map split`, got {path}: lists without one.")
    everything = catalogue_digest(plans(choose([]), None))
    placed = units(load_catalogue(), where, found.level)
    checked = check_split(found, placed, read_registry(), everything, level=found.level)
    if checked.verdict != "held":
        typer.echo(f"shardproof: the split does not hold; see `shardproof map split-check {path}`", err=True)
        raise typer.Exit(Exit.MISMATCH if checked.verdict == "mismatch" else Exit.VIOLATED)
    return found


def _approve(folder: Path, where: Path | None) -> None:
    try:
        record = look_through([folder], secrets_of(load_catalogue(), where, plans(choose([]), where)))
    except NothingHeldBackError:
        typer.echo("not looked through for leaks: no repairs are here", err=True)
        return
    if record.leaks:
        raise LeakError(record)
