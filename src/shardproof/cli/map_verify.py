"""`shardproof map verify` and `map show`: cases verified by running their programs."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from shardproof.cli.exits import Exit
from shardproof.cli.map_choices import MEMBERS, VARIANTS, CaseLevel, numbers, plain_console, told
from shardproof.failures.cases import read_registry
from shardproof.failures.kept import Before, cache_folder, kept_in, write_summary
from shardproof.failures.mechanism import members_folder
from shardproof.failures.selection import choose, plans
from shardproof.failures.verification import Effort, verify_cases
from shardproof.records.map import CaseResult, MapSummary
from shardproof.report.map_terminal import render_case, result_lines, summary_lines

EXITS = {
    "held": Exit.HELD,
    "violated": Exit.VIOLATED,
    "could not tell": Exit.COULD_NOT_TELL,
    "nothing ran": Exit.NOTHING_RAN,
}
NAMES = typer.Argument(metavar="NAME", help="Ids, aliases, slugs, families or slug/variant; default: all cases.")
LEVEL = typer.Option(help="How programs are held: process (limits, own tree), namespaces, or none.")
SCHEDULER = typer.Option(help="A Dask scheduler whose workers run them, such as tcp://host:8786; see the extra dask.")
JOBS = typer.Option(min=1, help="Programs that run at the same time; default: one for each processor.")


def verify(
    names: Annotated[list[str] | None, NAMES] = None,
    jobs: Annotated[int | None, JOBS] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Times each program is run; all must give the same.")] = 1,
    level: Annotated[CaseLevel, LEVEL] = CaseLevel.PROCESS,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run unchanged cases too; the cache is written only.")] = False,
    variants: Annotated[str | None, VARIANTS] = None,
    members: Annotated[Path | None, MEMBERS] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each case, then the summary.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Append results here as cases end; a killed run is resumed.")] = None,
    scheduler: Annotated[str | None, SCHEDULER] = None,
) -> None:
    """Run the programs of cases isolated and hold what they print against the role rules.

    Exits 0 when all hold, 1 when a rule is broken, 2 when a name is unknown, 3 when no verdict could be reached or the
    level cannot be had, 4 when the registry or the results in --out do not fit, 5 when nothing was selected.
    """
    effort = Effort(
        level=level.value,
        jobs=jobs or os.cpu_count() or 1,
        repeat=repeat,
        cache=cache_folder(),
        fresh=fresh,
        scheduler=scheduler,
    )
    with told():
        chosen = choose(names or [], numbers(variants) if variants else ())
        repairs, cases = members or members_folder(), sum(len(one.variants) for one in chosen)
        summary = _run(
            lambda sink, known: verify_cases(plans(chosen, repairs), effort, sink=sink, known=known),
            out,
            _saying(as_json, cases),
        )
    for line in [summary.model_dump_json()] if as_json else summary_lines(summary):
        typer.echo(line)
    raise typer.Exit(EXITS[summary.verdict])


def show(
    name: Annotated[str, typer.Argument(help="One case: an id, an alias, or slug/variant.")],
    level: Annotated[CaseLevel, LEVEL] = CaseLevel.PROCESS,
    members: Annotated[Path | None, MEMBERS] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the content and the result, a line of JSON each.")
    ] = False,
) -> None:
    """Show a case in the order of its page; it is verified first, unless the cache knows it unchanged.

    Exits as `map verify` does.
    """
    found: list[CaseResult] = []
    with told():
        cases = list(plans(choose([name]), members or members_folder()))
        if len(cases) != 1:
            typer.echo(f"shardproof: Expected one case, got {name!r}, which names {len(cases)}.", err=True)
            raise typer.Exit(Exit.USAGE)
        effort = Effort(level=level.value, cache=cache_folder())
        verify_cases(cases, effort, sink=found.append)
    if as_json:
        typer.echo(cases[0].content.model_dump_json())
        typer.echo(found[0].model_dump_json())
    else:
        entry = next((one for one in read_registry() if one.id == cases[0].content.id), None)
        render_case(cases[0].content, found[0], entry, plain_console())
    raise typer.Exit(EXITS[found[0].verdict])


Verification = Callable[[Callable[[CaseResult], None], Mapping[str, Before]], MapSummary]


def _run(verification: Verification, out: Path | None, said: Callable[[CaseResult], None]) -> MapSummary:
    """Run with results said as they come and, where there is a folder, appended to its file first."""
    if out is None:
        return verification(said, {})
    with kept_in(out) as (known, append):

        def sink(result: CaseResult) -> None:
            append(result)
            said(result)

        summary = verification(sink, known)
        write_summary(out, summary)
    return summary


def _saying(as_json: bool, cases: int) -> Callable[[CaseResult], None]:
    """Print each result: its record, or what did not hold; on a terminal also how far it is."""
    done = itertools.count(1)

    def say(result: CaseResult) -> None:
        for line in [result.model_dump_json()] if as_json else result_lines(result):
            typer.echo(line)
        if sys.stderr.isatty():
            typer.echo(f"\r{next(done)} of {cases} cases\r", nl=False, err=True)

    return say
