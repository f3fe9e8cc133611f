"""The one clause that no cell can answer alone: the same gradients give the same bits under every layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardproof.audit import checks
from shardproof.audit.clauses import BITS_LAYOUTS
from shardproof.records.audit import CellObservation, ClauseVerdict, Finding, Plan

SHARED = "shared"
"""The fixture whose nonzero gradients are the same numbers in every layout."""


def across_layouts(
    plan: Plan, seen: Mapping[str, Sequence[CellObservation]], cells: set[str]
) -> tuple[ClauseVerdict, ...]:
    """For each subject, in the plan's order, whether its norms of the shared fixture have the same bits everywhere.

    Cells that are not in `cells` (they did not run to their end, or do not count) are left out.
    """
    return tuple(_subject(plan, subject.name, seen, cells) for subject in plan.subjects)


def _subject(plan: Plan, subject: str, seen: Mapping[str, Sequence[CellObservation]], cells: set[str]) -> ClauseVerdict:
    norms = [
        (cell.layout, rank, number)
        for cell in plan.cells
        if cell.subject == subject and cell.id in cells
        for rank, number in _norms(plan, cell.layout, seen[cell.id])
    ]
    made = [checks.Check(BITS_LAYOUTS, _other(norms[0], each)) for each in norms[1:]]
    return checks.verdict_on(BITS_LAYOUTS, made)


def _norms(plan: Plan, layout: str, observations: Sequence[CellObservation]) -> list[tuple[int, float]]:
    fixtures = [each for one in plan.layouts if one.name == layout for each in one.fixtures if each.name == SHARED]
    calls = [
        call for fixture in fixtures for seen in observations for call in checks.returned_everywhere(fixture, seen)
    ]
    numbers = [(rank, checks.norm_of(call.returned)) for rank, call in calls if call.returned]
    return [(rank, number) for rank, number in numbers if number is not None]


def _other(first: tuple[str, int, float], other: tuple[str, int, float]) -> Finding | None:
    if first[2].hex() == other[2].hex():
        return None
    text = f"{first[2]!r} under {first[0]} (rank {first[1]}), {other[2]!r} under {other[0]} (rank {other[1]})"
    return Finding(fixture=SHARED, rank=other[1], expected=first[2], observed=other[2], text=text)
