"""The verdict on a published page for a terminal, from the record alone."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shardproof.records.page import ImplementationVerdict, Observation, PageVerdict

AGREES = {True: "agrees", False: "differs", None: "could not tell"}
STYLES = {True: "green", False: "bold red", None: "yellow"}
WORD_STYLES = {"held": "green", "violated": "bold red", "mismatch": "bold red", "could not tell": "yellow"}
LONGEST = 300


def render_page(verdict: PageVerdict, console: Console) -> None:
    """Print the verdict; the last line counts the observations that agree."""
    for line in _head(verdict):
        _print(console, line)
    for one in verdict.implementations:
        console.print(_table(one, console.encoding))
        for text in (*one.differences, *(f"could not tell: {why}" for why in one.unclear)):
            _print(console, f"  ! {text}", "bold red" if text in one.differences else "yellow")
    for line in _foot(verdict):
        _print(console, line)
    _print(console, f"verdict: {verdict.verdict}", WORD_STYLES[verdict.verdict])
    _print(console, f"{verdict.agreeing} of {verdict.observations} observations agree")


def printable(text: str, encoding: str = "utf-8") -> str:
    """Return `text` with what a terminal would obey instead of show, or cannot encode, written as an escape.

    >>> printable("a" + chr(27) + "[2J")
    'a\\\\x1b[2J'
    """
    safe = (letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    return "".join(safe).encode(encoding, "backslashreplace").decode(encoding)


def _head(verdict: PageVerdict) -> Iterator[str]:
    page = verdict.page
    yield f"{page.id} / {page.family} / {page.access}: {page.title} · case {page.case}"
    yield f"contract: {page.contract}"
    yield f"root cause: {page.root_cause}"
    yield (
        f"variant {page.variant}, {page.checks_per_implementation} checks per implementation, recorded with "
        f"Python {page.recorded_python} at {page.recorded_at}; run with Python {verdict.environment.python}"
    )


def _table(one: ImplementationVerdict, encoding: str) -> Table:
    title = Text(f"{one.number} / {one.name}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("check", "actual as recorded", "expected as recorded", "outcome", "run again"):
        table.add_column(name, overflow="fold")
    for observation in one.observations:
        table.add_row(*_cells(observation, encoding))
    return table


def _cells(observation: Observation, encoding: str) -> list[Text]:
    row = observation.recorded
    cells = (row.label, row.actual, row.expected, row.outcome) if row else ("(not in the table)", "", "", "")
    shown = [Text(printable(_short(cell), encoding)) for cell in cells]
    return [*shown, Text(AGREES[observation.agrees], style=STYLES[observation.agrees])]


def _foot(verdict: PageVerdict) -> Iterator[str]:
    for one in verdict.implementations:
        where = f"{one.number} / {one.name}"
        agrees = "matches" if one.digest.agrees else f"DOES NOT MATCH, the page records {one.digest.recorded}"
        yield f"{where}: SHA-256 {one.digest.computed} {agrees}"
        yield f"{where}: {one.exit_code.recorded} recorded; {one.run.detail}"
    yield f"case digest {verdict.page.case_digest}: {verdict.case_digest}"
    yield f"the repair that the page withholds, ours: {verdict.repair.status}; {verdict.repair.detail}"
    yield from _failed_checks(verdict)
    yield from (f"note: {note}" for note in verdict.notes)
    isolation = verdict.implementations[0].run.isolation
    yield f"isolation: level {isolation.achieved}" + (f" (uid {isolation.user})" if isolation.user is not None else "")
    yield f"  held: {'; '.join(isolation.enforced)}"
    yield f"  not held: {'; '.join(isolation.not_enforced)}"


def _failed_checks(verdict: PageVerdict) -> Iterator[str]:
    for check in verdict.repair.checks:
        if not check.passed:
            yield f"  ! {check.label}: expected {_short(check.expected)}, got {_short(check.actual)}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _print(console: Console, line: str, style: str = "") -> None:
    # Text, not markup: a page's own words are shown, never obeyed.
    console.print(Text(printable(line, console.encoding), style=style), soft_wrap=True)
