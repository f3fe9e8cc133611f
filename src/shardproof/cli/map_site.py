"""`shardproof map site`: the catalogue as static pages, written from records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import MEMBERS, told
from shardproof.errors import InvalidValueError
from shardproof.failures import record_text
from shardproof.failures.bundles import case_bundle
from shardproof.failures.folder import replace_folder
from shardproof.failures.kept import RESULTS, cache_folder, read_results
from shardproof.failures.mechanism import CATALOGUE, members_folder
from shardproof.failures.site_records import Stock, site_records, stock_of
from shardproof.failures.verification import Effort, verify_cases
from shardproof.records.map import CaseResult
from shardproof.records.map_site import SiteCase, SiteIndex
from shardproof.report.map_site import file_name, site_pages
from shardproof.report.map_terminal import result_lines, site_line

INDEX = "index.json"


class Shared(StrEnum):
    """Who the pages are for."""

    OPEN = "open"
    MEMBER = "member"


def site(
    out: Annotated[Path, typer.Argument(help="The folder to write: a new or empty one, or one with such pages.")],
    records: Annotated[
        Path | None, typer.Option(help="The folder that `map verify --out` wrote; its results go on the pages.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run the cases first, those that the cache does not know unchanged.")
    ] = False,
    tier: Annotated[
        Shared, typer.Option(help="open: repairs are held back; member: repairs and held-back checks too.")
    ] = Shared.OPEN,
    members: Annotated[Path | None, MEMBERS] = None,
    catalogue: Annotated[Path, typer.Option(help="Where the catalogue lies.")] = CATALOGUE,
) -> None:
    """Write static pages of all cases: home, families, mechanisms, cases; each case's record as JSON and its bundle
    beside its page.

    Without --records or --verify the pages say of every case that it was not run. Exits 0 when the pages are written
    and no case on them is violated, 1 when one is, 2 when the folder holds something else, 3 when one could not be
    told, 4 when results are of other programs than the catalogue has, 5 when there is no case; at 2, 4 and 5 nothing
    is written.
    """
    with told():
        stock = stock_of(members or members_folder(), catalogue)
        results = _results(stock, records, verify)
        index, cases = site_records(stock, {one.id: one for one in results}, tier.value)
    if not cases:
        typer.echo("no case to write pages of")
        raise typer.Exit(Exit.NOTHING_RAN)
    replace_folder(out, _files(stock, index, cases), INDEX, private=tier is Shared.MEMBER)
    for result in results:
        for line in result_lines(result):
            typer.echo(line)
    if other := {one.id for one in results} - {one.content.id for one in cases}:
        typer.echo(f"{len(other)} results are of cases without a page: variants without an id, or withdrawn")
    typer.echo(site_line(index))
    counts = index.counts
    raise typer.Exit(Exit.VIOLATED if counts.violated else Exit.COULD_NOT_TELL if counts.could_not_tell else Exit.HELD)


def _results(stock: Stock, records: Path | None, verify: bool) -> list[CaseResult]:
    """What was observed: read from a folder, had by running the cases, or nothing."""
    if records is not None and verify:
        raise InvalidValueError("Expected --records or --verify, got both: name one of the two.")
    found: list[CaseResult] = []
    if verify:
        verify_cases(stock.plans, Effort(jobs=os.cpu_count() or 1, cache=cache_folder()), sink=found.append)
    if records is not None:
        if not (records / RESULTS).is_file():
            raise InvalidValueError(
                f"Expected a folder that `map verify --out` wrote, got {records} without {RESULTS}."
            )
        found += read_results(records / RESULTS)
    return found


def _files(stock: Stock, index: SiteIndex, cases: Sequence[SiteCase]) -> Iterator[tuple[str, bytes]]:
    yield INDEX, _json(index)
    for plan, case in zip(stock.plans, cases, strict=True):
        yield f"cases/{file_name(case.content.id)}.json", _json(case)
        yield f"cases/{case.bundle.file}", case_bundle(plan, case.evaluation_group)
    for path, text in site_pages(index, cases):
        yield path, text.encode("utf-8")


def _json(record: SiteIndex | SiteCase) -> bytes:
    return (record_text(record) + "\n").encode("ascii")
