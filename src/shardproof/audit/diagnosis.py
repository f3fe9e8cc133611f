"""Naming the mistake: which wrong implementation of the map shows what the subject was seen to do.

Every wrong implementation with a lowering is run, in plain Python, on the layouts and fixtures of the run, once for
each reading of the layout. It is a candidate only when it agrees with the subject on every observation and departs
from the reference on at least two. Nothing is named because it is nearest.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shardproof.audit.agreement import Part, Told, agrees, departs, residual, seen_in, wanted
from shardproof.audit.clauses import LIMIT_DOMAIN, NON_FINITE, RANGE, ZERO_LIMIT
from shardproof.audit.lowering import cell_of, padding_counted
from shardproof.audit.orders import norm_of_order
from shardproof.audit.strict import clause_of
from shardproof.failures import Lowered, owned
from shardproof.failures.lowering import Cell, Ended, answer
from shardproof.records.audit import (
    Candidate,
    CellObservation,
    CellVerdict,
    Diagnosis,
    FixturePlan,
    LayoutPlan,
    Named,
    Plan,
    Residual,
    Verdict,
)

CORE: Final = "core"
DIAGNOSED: Final = (RANGE, LIMIT_DOMAIN, NON_FINITE, ZERO_LIMIT)
"""The strict clauses that name a mistake; those of single bits show rounding, which has many causes."""
TAKE_PART: Final = ("pass", "fail", "hang")
"""Verdicts of cells whose numbers say something about the subject's arithmetic."""
ENOUGH: Final = 2
"""Observations on which a candidate must depart from the reference, as the subject does."""
READINGS: Final = 12
"""Readings that come to the same and are listed; the names of all of them would fill a page."""


@dataclass(frozen=True)
class Point:
    """One call under one layout, as the subject was seen to answer it and as the reference would."""

    layout: LayoutPlan
    fixture: str
    cell: Cell
    padded: Cell
    seen: tuple[Told, ...]
    right: tuple[Told, ...]
    norm_tolerance: float
    element_tolerance: float

    @functools.cached_property
    def wrong(self) -> bool:
        """Whether the subject departs from the reference here."""
        return departs(self.seen, self.right, self.norm_tolerance, self.element_tolerance)

    @functools.cached_property
    def right_with_padding(self) -> Sequence[Told]:
        """What a program does that is right but for taking padding for gradient."""
        if self.padded is self.cell or not self.padded.limit >= 0 or not owned.finite(self.padded):
            return self.right
        return owned.clipped(self.padded, norm_of_order([*owned.gradient(self.padded).values()], self.padded.norm_type))


@dataclass(frozen=True)
class Suspect:
    """One wrong implementation, in readings that come to the same on every point.

    It answers any point, or says that it cannot. padded: it is told that padding is gradient.
    """

    names: tuple[Named, ...]
    answer: Callable[[Point], Sequence[Ended] | None]
    padded: bool


@dataclass(frozen=True)
class Graded:
    """A run as it was planned, graded and observed."""

    plan: Plan
    verdict: Verdict
    observations: Sequence[CellObservation]


def diagnose(runs: Sequence[Graded], dictionary: Sequence[Lowered]) -> tuple[Diagnosis, ...]:
    """Name what explains each subject that failed: in core as a whole, in the strict profile clause by clause.

    Args:
        runs: the run, and the runs that were added to tell candidates apart. Cells that raised, crashed or could not
            be told take no part, and are said (errors do where nothing else is wrong); of repeated cells the first
            observation is used.
        dictionary: the wrong implementations of the map that have a lowering.
    """
    verdict = runs[0].verdict
    found = []
    for subject in [subject.name for subject in runs[0].plan.subjects]:
        if any(cell.verdict in ("fail", "hang") for cell in _cells(verdict, subject)):
            points = [point for run in runs for point in points_of(run, subject, _in_core)]
            found.append(explained(subject, CORE, points, dictionary, _left_out(verdict, subject)))
        elif any(cell.verdict == "error" for cell in _cells(verdict, subject)):
            points = list(points_of(runs[0], subject, _in_core, (*TAKE_PART, "error")))
            found.append(explained(subject, CORE, points, dictionary, ()))
        if verdict.profile == "strict":
            found += [
                explained(subject, clause, points, dictionary, ())
                for clause in _violated(verdict, subject)
                if (points := list(points_of(runs[0], subject, functools.partial(_belongs, clause))))
            ]
    return tuple(found)


def _cells(verdict: Verdict, subject: str) -> list[CellVerdict]:
    return [cell for cell in verdict.cells if cell.subject == subject and not cell.control]


def _left_out(verdict: Verdict, subject: str) -> tuple[str, ...]:
    return tuple(f"{cell.layout}: {cell.verdict}" for cell in _cells(verdict, subject) if cell.verdict not in TAKE_PART)


def _violated(verdict: Verdict, subject: str) -> list[str]:
    outcomes = {(each.clause, each.outcome) for cell in _cells(verdict, subject) for each in cell.clauses}
    return [clause for clause in DIAGNOSED if (clause, "violated") in outcomes]


def _in_core(fixture: FixturePlan) -> bool:
    return fixture.profile == "core"


def _belongs(clause: str, fixture: FixturePlan) -> bool:
    return fixture.profile == "strict" and clause_of(fixture) == clause


def points_of(
    run: Graded, subject: str, chosen: Callable[[FixturePlan], bool], words: Sequence[str] = TAKE_PART
) -> Iterator[Point]:
    """Every call of a subject that was seen on all ranks, of the fixtures that are chosen, in cells with such words."""
    layouts = {layout.name: layout for layout in run.plan.layouts}
    seen = {each.cell: each for each in reversed(run.observations)}
    for cell in _cells(run.verdict, subject):
        if cell.verdict in words:
            layout = layouts[cell.layout]
            for fixture in filter(chosen, layout.fixtures):
                told = seen_in(layout, fixture, seen[cell.cell])
                if told is not None:
                    yield point_of(layout, fixture, told)


def point_of(layout: LayoutPlan, fixture: FixturePlan, told: tuple[Told, ...] = ()) -> Point:
    """One call as the map sees it, with what the reference does, and what the subject was seen to do."""
    right, norm_tolerance, element_tolerance = wanted(layout, fixture)
    plain = cell_of(layout, fixture)
    padded = padding_counted(plain)
    return Point(layout, fixture.name, plain, padded, told or right, right, norm_tolerance, element_tolerance)


def explained(
    subject: str, scope: str, points: Sequence[Point], dictionary: Sequence[Lowered], left_out: tuple[str, ...]
) -> Diagnosis:
    """The diagnosis from the points of one subject: the set of what explains all of them, or the residuals."""
    wrong = [point for point in points if point.wrong]
    ordered = [*wrong, *(point for point in points if not point.wrong)]
    suspects = list(suspects_of(dictionary, ordered)) if wrong else []
    candidates = list(_candidates(suspects, ordered))
    word = "nothing to explain" if not wrong else "explained" if candidates else "not a known mechanism"
    return Diagnosis(
        subject=subject,
        scope=scope,
        word=word,
        observations=len(points),
        wrong=len(wrong),
        candidates=merged(candidates),
        residuals=() if word != "not a known mechanism" else tuple(_residuals(suspects, ordered)),
        left_out=left_out,
    )


def _candidates(suspects: Sequence[Suspect], points: Sequence[Point]) -> Iterator[Candidate]:
    """Single mistakes; where there is none, one in the half that is wrong alone; else two at once."""
    parts: list[Part] = ["all"]
    for part in ("norm", "values"):
        other: Part = "values" if part == "norm" else "norm"
        if all(agrees(each.right, each.seen, each.norm_tolerance, each.element_tolerance, other) for each in points):
            parts.append(part)
    for part in parts:
        found = [(each, told) for each in suspects if (told := _explains(each, points, part))]
        if part == "norm":
            found = [(each, told) for each, told in found if _speaks_of_norms(each, points)]
        if found:
            yield from (_candidate([each], len(points), told) for each, told in found)
            return
    yield from _pairs(suspects, points)


def suspects_of(dictionary: Sequence[Lowered], points: Sequence[Point]) -> Iterator[Suspect]:
    """Every implementation in every reading that can express each point on which the subject is wrong.

    Where buffers have padding, each reading is tried twice: padding is left out, and padding is counted.
    """
    contracts: dict[str, Callable[[Cell], Mapping[str, tuple[Any, ...]]]] = {}
    padding = any(point.padded is not point.cell for point in points)
    for entry in dictionary:
        readings = contracts.setdefault(entry.contract, _remembered(entry.readings))
        solve = _solved_once(entry)
        for padded in (False, True) if padding else (False,):
            for same in _equal_readings(readings, points, padded):
                behind = "; padding counts" if padded else ""
                names = tuple(
                    Named(mechanism=entry.slug, implementation=entry.role, reading=reading + behind) for reading in same
                )
                yield Suspect(names, functools.partial(_answer, readings, solve, same[0], padded), padded)


def _equal_readings(
    readings: Callable[[Cell], Mapping[str, tuple[Any, ...]]], points: Sequence[Point], padded: bool
) -> list[list[str]]:
    """The readings that express every wrong point, or any where none is wrong.

    Those whose arguments are the same objects everywhere come together.
    """
    told = [readings(point.padded if padded else point.cell) for point in points]
    wrong = [set(each) for each, point in zip(told, points, strict=True) if point.wrong]
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in sorted(set.intersection(*wrong) if wrong else set[str]().union(*told)):
        groups.setdefault(tuple(id(each.get(name)) for each in told), []).append(name)
    return list(groups.values())


def _remembered(
    readings: Callable[[Cell], Mapping[str, tuple[Any, ...]]],
) -> Callable[[Cell], Mapping[str, tuple[Any, ...]]]:
    kept: dict[int, tuple[Cell, Mapping[str, tuple[Any, ...]]]] = {}

    def read(cell: Cell) -> Mapping[str, tuple[Any, ...]]:
        if id(cell) not in kept:
            kept[id(cell)] = (cell, readings(cell))
        return kept[id(cell)][1]

    return read


def _solved_once(entry: Lowered) -> Callable[[Cell, tuple[Any, ...]], Sequence[Ended]]:
    # Readings that come to the same arguments share one object, and are solved once.
    kept: dict[int, tuple[tuple[Any, ...], Sequence[Ended]]] = {}

    def solve(cell: Cell, arguments: tuple[Any, ...]) -> Sequence[Ended]:
        if id(arguments) not in kept:
            kept[id(arguments)] = (arguments, _ended(entry, cell, arguments))
        return kept[id(arguments)][1]

    return solve


def _ended(entry: Lowered, cell: Cell, arguments: tuple[Any, ...]) -> Sequence[Ended]:
    return entry.predicted(cell, answer(entry.solve, arguments))


def _answer(
    readings: Callable[[Cell], Mapping[str, tuple[Any, ...]]],
    solve: Callable[[Cell, tuple[Any, ...]], Sequence[Ended]],
    reading: str,
    padding: bool,
    point: Point,
) -> Sequence[Ended] | None:
    cell = point.padded if padding else point.cell
    arguments = readings(cell).get(reading)
    return None if arguments is None else solve(cell, arguments)


def _explains(suspect: Suspect, points: Sequence[Point], part: Part = "all") -> int:
    """On how many points the suspect departs from the reference, agreeing with the subject on all; 0: it does not.

    A point that the suspect cannot express counts against it where the subject is wrong there, and not otherwise.
    Where padding alone makes it depart, the mistake is not its own.
    """
    departing = own = 0
    for point in points:
        ended = suspect.answer(point)
        if ended is None:
            if point.wrong:
                return 0
            continue
        if not agrees(point.seen, ended, point.norm_tolerance, point.element_tolerance, part):
            return 0
        tolerances = point.norm_tolerance, point.element_tolerance
        differs = departs(ended, point.right, *tolerances, part)
        departing += differs
        own += differs and (not suspect.padded or departs(ended, point.right_with_padding, *tolerances, part))
    return departing if own >= ENOUGH else 0


def _pairs(suspects: Sequence[Suspect], points: Sequence[Point]) -> Iterator[Candidate]:
    """Two mistakes at once: one in what is returned and one in what is scaled, or each under its own layouts."""
    norms = [each for each in suspects if _explains(each, points, "norm") and _speaks_of_norms(each, points)]
    values = [each for each in suspects if norms and _explains(each, points, "values")]
    wrong = sum(point.wrong for point in points)
    for one in norms:
        for other in values:
            if one.names[0].mechanism != other.names[0].mechanism:
                yield _candidate([one, other], len(points), wrong)
    if not (norms and values):
        yield from _by_layout(suspects, points)


def _speaks_of_norms(suspect: Suspect, points: Sequence[Point]) -> bool:
    told = [suspect.answer(point) for point in points if point.wrong]
    return all(one.norm is not None for ended in told for one in ended or () if one.outcome == "returned")


def _by_layout(suspects: Sequence[Suspect], points: Sequence[Point]) -> Iterator[Candidate]:
    by_layout: dict[str, list[Point]] = {}
    for point in points:
        by_layout.setdefault(point.layout.name, []).append(point)
    needed = {name for name, held in by_layout.items() if any(point.wrong for point in held)}
    covers = [(each, {name for name in needed if _explains(each, by_layout[name])}) for each in suspects]
    some = [(each, covered) for each, covered in covers if covered]
    wrong = sum(point.wrong for point in points)
    for place, (one, covered) in enumerate(some):
        for other, rest in some[place + 1 :]:
            if one.names[0].mechanism != other.names[0].mechanism and covered | rest == needed:
                yield _candidate([one, other], len(points), wrong)


def _candidate(suspects: Sequence[Suspect], agreeing: int, departing: int) -> Candidate:
    together = tuple(itertools.islice(itertools.product(*(each.names for each in suspects)), READINGS))
    return Candidate(together=together, agreeing=agreeing, departing=departing)


def merged(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """One candidate for each set of mechanisms and implementations, with all readings that say the same."""
    groups: dict[tuple[tuple[str, str], ...], list[Candidate]] = {}
    for candidate in candidates:
        key = tuple((each.mechanism, each.implementation) for each in candidate.together[0])
        groups.setdefault(key, []).append(candidate)
    return tuple(
        group[0].model_copy(
            update={
                "together": tuple(dict.fromkeys(each for one in group for each in one.together)),
                "departing": max(one.departing for one in group),
            }
        )
        for group in groups.values()
    )


def _fits(point: Point, ended: Sequence[Ended]) -> bool:
    """Agreement that counts as near: silence about a norm that is wrong is none."""
    silent = all(one.norm is None for one in ended if one.outcome == "returned")
    norms_right = agrees(point.right, point.seen, point.norm_tolerance, point.element_tolerance, "norm")
    return (norms_right or not silent) and agrees(point.seen, ended, point.norm_tolerance, point.element_tolerance)


def _residuals(suspects: Sequence[Suspect], points: Sequence[Point]) -> Iterator[Residual]:
    """For each implementation its nearest reading, over all observations."""
    best: dict[tuple[str, str], Residual] = {}
    for suspect in suspects:
        told = [(point, suspect.answer(point)) for point in points]
        pairs = [(point, ended) for point, ended in told if ended is not None]
        if not pairs:
            continue
        agreeing = sum(_fits(point, ended) for point, ended in pairs)
        worst = max(residual(point.seen, ended) for point, ended in pairs)
        found = Residual(nearest=suspect.names[0], agreeing=agreeing, of=len(points), worst=worst)
        key = (suspect.names[0].mechanism, suspect.names[0].implementation)
        if key not in best or (found.agreeing, -found.worst) > (best[key].agreeing, -best[key].worst):
            best[key] = found
    yield from sorted(best.values(), key=lambda each: (-each.agreeing, each.worst))
