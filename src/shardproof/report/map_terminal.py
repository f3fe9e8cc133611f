"""Cases of the Failure Map on a terminal, from their records: one line, a summary, or the whole page."""

from __future__ import annotations

import json
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shardproof.records.map import CaseContent, CaseEntry, CaseResult, MapSummary, MatrixRecord, ProgramResult
from shardproof.records.map_site import SiteIndex

HEADINGS = {"failing": "1 / The failure", "unsuccessful": "2 / The unsuccessful fix", "repair": "3 / The repair"}
HELD_BACK = "The repair and its recorded checks are held back, for every case of this mechanism."


def result_lines(result: CaseResult) -> list[str]:
    """What a reader has to know of a case that did not hold; nothing of one that held."""
    if result.verdict == "held":
        return []
    said = [*result.broken, *(f"{_name(one)}: {text}" for one in result.programs for text in one.problems)]
    said += [f"{_name(one)}: {text}" for one in result.programs for text in one.unclear]
    head = f"{result.id} {result.mechanism} variant {result.variant}: {result.verdict}"
    return [head, *(f"  {text}" for text in said)]


def summary_lines(summary: MapSummary) -> list[str]:
    """The counts of a verification, what held its programs and what did not, and the verdict last."""
    lines = []
    if summary.isolation is not None:
        lines.append(f"isolation: {summary.isolation.achieved}; not held: {', '.join(summary.isolation.not_enforced)}")
    if summary.repair_held_back:
        lines.append(f"repair held back for {summary.repair_held_back} cases")
    lines.append(f"{summary.ran} cases run, {summary.from_cache} from the cache, {summary.resumed} resumed")
    counts = f"{summary.held} held, {summary.violated} violated, {summary.could_not_tell} could not tell"
    return [*lines, f"{summary.cases} cases, {summary.programs} programs: {counts}", f"verdict: {summary.verdict}"]


def site_line(index: SiteIndex) -> str:
    """The tier of pages that were written, and how many of their cases have which verdict."""
    one = index.counts
    counts = f"{one.held} held, {one.violated} violated, {one.could_not_tell} could not tell, {one.not_run} not run"
    return f"{index.tier} tier: {one.cases} cases of {len(index.mechanisms)} mechanisms, {counts}"


def render_case(content: CaseContent, result: CaseResult, entry: CaseEntry | None, console: Console) -> None:
    """Print a case in the order of the published page; texts of the case are printed as they are.

    Args:
        content: what the case says.
        result: what was observed.
        entry: its line in the registry; None where the variant has no id.
        console: where to.
    """
    _head(content, entry, console)
    sources = {program.role: program.source for program in content.programs}
    for one in result.programs:
        if one.part == "visible":
            _program(one, sources.get(one.role), console)
    _repair(result, console)
    _say(console, "Verification & scope", content.scope)
    for reference in content.references:
        console.print(Text(f"{reference.kind}: {reference.url} ({reference.note})"), soft_wrap=True)
    observed = f"Observations recorded using Python {result.python} on {result.platform} at {result.time}."
    console.print(Text(f"\n{observed}\nCase digest / {result.case_digest}\nverdict: {result.verdict}"), soft_wrap=True)


def matrix_lines(matrix: MatrixRecord) -> list[str]:
    """For each contract: what each implementation fails, who cannot be told apart, and what tells the others apart."""
    lines = []
    for contract in matrix.contracts:
        lines.append(f"{contract.contract}: {len(contract.checks)} checks, variant {matrix.variant}")
        lines += [f"  {one.name}: fails {one.fails} of {len(contract.checks)}" for one in contract.implementations]
        lines += [f"  equivalent on all checks: {', '.join(names)}" for names in contract.equivalent]
        for pair in contract.weakest:
            shown = "; ".join(pair.checks[:3])
            lines.append(f"  {pair.left} | {pair.right}: told apart by {len(pair.checks)}, as by {shown}")
    return lines


def _head(content: CaseContent, entry: CaseEntry | None, console: Console) -> None:
    counts = f"Variant {content.variant} · {len(content.checks)} checks per implementation · group {content.group}"
    console.print(Text(f"{content.id} / {content.family} / {content.mechanism}", style="bold"))
    console.print(Text(f"{content.title}\n{counts}"))
    if entry is not None and entry.aliases:
        console.print(Text(f"Also published as {', '.join(entry.aliases)}"))
    if entry is not None and entry.reason:
        console.print(Text(f"{entry.state}: {entry.reason}", style="bold"))
    _say(console, "ROOT CAUSE", content.root_cause)
    _say(console, "Unsuccessful approach", content.unsuccessful_approach)
    _say(console, "Case contract", content.contract.text)
    _say(console, "Why this case matters", content.why_it_matters)


def _say(console: Console, heading: str, text: str) -> None:
    console.print(Text(f"\n{heading}", style="bold"))
    console.print(Text(text))


def _program(one: ProgramResult, source: str | None, console: Console) -> None:
    console.print(Text(f"\n{HEADINGS[one.role]}", style="bold"))
    console.print(Text(f"Exit {one.exit_code}" if one.exit_code is not None else one.detail))
    if source is not None:
        console.print(Text(f"\n{source}"), soft_wrap=True)
    console.print(_table(one))
    console.print(Text("\n".join([f"SHA-256 / {one.sha256}", *one.problems, *one.unclear])), soft_wrap=True)


def _table(one: ProgramResult) -> Table:
    table = Table("Boundary fixture", "Actual", "Expected", "Outcome")
    for row in one.observations:
        values = [Text(json.dumps(value, ensure_ascii=True)) for value in (row.actual, row.expected)]
        table.add_row(Text(row.check), *values, "Passed" if row.passed else "Failed")
    return table


def _repair(result: CaseResult, console: Console) -> None:
    parts = [one for one in result.programs if one.role == "repair"]
    if not parts:
        console.print(Text(f"\n{HELD_BACK}"))
    for one in parts:
        console.print(Text(f"The repair passes {_passed(one)} {one.part} checks."))
    for text in result.broken:
        console.print(Text(f"broken: {text}"))


def _passed(one: ProgramResult) -> str:
    return f"{sum(row.passed for row in one.observations)} of {len(one.observations)}"


def _name(one: ProgramResult) -> str:
    return one.role if one.part == "visible" else f"{one.role} on the held-back checks"


def listing(rows: Iterable[tuple[str, str, str, str]], console: Console) -> None:
    """Print mechanisms: family, slug, cases, title."""
    table = Table("family", "mechanism", "cases", "what goes wrong")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
