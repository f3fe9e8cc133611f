"""The page of findings, from its record alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shardproof.records.findings import FindingCell, Findings, FindingSubject
from shardproof.report.shrunk import shrunk_lines

HEAD = """# Findings

What the audit says of each built-in subject, cell by cell, at the versions that are named. This page is written from
stored runs by one command, `shardproof audit findings RUN... --into docs`, and a test holds it to its record,
[findings/findings.json](findings/findings.json). It says nothing beyond what was run.

*core* decides: the norm is the global norm, one factor scales everything, copies stay equal, every rank returns.
*strict* (bits, limits, values that are not finite) is what shardproof promises beyond it; other libraries do not, and a
violation of it is no mistake of theirs. A subject that is called without being told how its parameters lie, as torch's
clip is on plain tensors, cannot know what other ranks hold: its failures there say where it must not be called alone.

Each reproduction is one file that needs the named library and not shardproof; it exits 1 where it sees the failure.
"""


def findings_page(findings: Findings) -> str:
    """The page, in Markdown."""
    parts = [HEAD, *(_subject(each) for each in findings.subjects)]
    limits = "\n".join(f"- {limit}" for limit in findings.limits)
    return "\n".join([*parts, f"## What this does not show\n\n{limits}\n"])


def _subject(subject: FindingSubject) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(subject.packages.items()))
    counts = Counter(cell.verdict for cell in subject.cells)
    said = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    lines = [
        f"## {subject.subject}",
        "",
        f"Calls `{subject.calls}`. Seen with {versions}; Python {subject.python}, {subject.platform}; run "
        f"`{subject.run_id}` of {subject.time[:10]}.",
        "",
        f"{len(subject.cells)} layouts: {said}.",
        *(f"\n{line}" for line in subject.explained),
        "",
        "| layout | core | violated in core | violated in strict | run it again | reproduction |",
        "|---|---|---|---|---|---|",
        *(_row(cell) for cell in subject.cells),
        "",
    ]
    smallest = list(_smallest(subject))
    return "\n".join([*lines, *(["Smallest cases, one list for each rank:", "", *smallest] if smallest else [])])


def _row(cell: FindingCell) -> str:
    shown = f"[{cell.reproduction.rpartition('/')[2]}]({cell.reproduction})" if cell.reproduction else ""
    seen = f", exits {cell.exit_code}" if cell.exit_code is not None else ""
    words = cell.verdict if cell.verdict in ("pass", "fail") else f"{cell.verdict}: {_short(cell.reason)}"
    columns = (cell.layout, words, ", ".join(cell.clauses), ", ".join(cell.strict), f"`{cell.command}`", shown + seen)
    return f"| {' | '.join(each.replace('|', '&#124;') for each in columns)} |"


def _short(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= 160 else f"{line[:157]}..."


def _smallest(subject: FindingSubject) -> Iterator[str]:
    for cell in subject.cells:
        if cell.smallest is not None:
            count = len(cell.smallest.ranks)
            yield from (f"{cell.layout}, {count} rank{'s' if count > 1 else ''}:", "")
            yield from ("```text", *map(_short, shrunk_lines(cell.smallest)), "```", "")
