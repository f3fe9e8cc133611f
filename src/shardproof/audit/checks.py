"""The checks behind each clause: what was seen on each rank against the exact rule on the logical gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shardproof.audit import clauses as ids
from shardproof.audit.clauses import Expected, expected
from shardproof.records.audit import (
    Call,
    CellObservation,
    ClauseVerdict,
    Finding,
    FixturePlan,
    LayoutPlan,
    NormRow,
    RankObservation,
    Returned,
    Slice,
)


@dataclass(frozen=True)
class Check:
    """One check that was made; finding is None where it held."""

    clause: str
    finding: Finding | None


@dataclass(frozen=True)
class Held:
    """One entry of one rank around one call: where its elements lie, and their values."""

    rank: int
    entry: str
    tensor: str
    indices: tuple[int, ...]
    values: Slice


def clauses(layout: LayoutPlan, seen: CellObservation) -> tuple[ClauseVerdict, ...]:
    """Each core clause with its checks, over the core calls that returned on every rank."""
    made = [check for fixture in core(layout) for check in _fixture(layout, fixture, seen)]
    graded = [clause for clause in ids.CLAUSES if ids.profile_of(clause) == "core" and clause != ids.CALLS_RETURN]
    return tuple(verdict_on(clause, made) for clause in graded)


def core(layout: LayoutPlan) -> tuple[FixturePlan, ...]:
    """The layout's calls that core is graded by."""
    return tuple(fixture for fixture in layout.fixtures if fixture.profile == "core")


def norm_rows(layout: LayoutPlan, seen: CellObservation) -> tuple[NormRow, ...]:
    """Expected and returned norm and the factor that was seen, rank by rank, for each call that returned."""
    return tuple(
        _row(fixture, expected(layout, fixture), calls, held_around(seen, fixture))
        for fixture in core(layout)
        if (calls := returned_everywhere(fixture, seen))
    )


def misplaced(layout: LayoutPlan, seen: CellObservation) -> str | None:
    """What was observed of other elements, or fewer, than planned; None when all is as planned."""
    if [rank.rank for rank in seen.ranks] != list(range(layout.world_size)):
        return f"ranks {[rank.rank for rank in seen.ranks]} were observed, planned {layout.world_size}"
    for rank in seen.ranks:
        planned = [(piece.entry, piece.tensor, piece.indices) for piece in layout.pieces if piece.rank == rank.rank]
        built = [(piece.entry, piece.tensor, piece.indices) for piece in rank.pieces]
        if built != planned:
            return f"rank {rank.rank} holds {built}, planned {planned}"
    calls = [(rank, call) for rank in seen.ranks for call in rank.calls]
    return next((wrong for rank, call in calls if (wrong := _incomplete(layout, rank, call))), None)


def _incomplete(layout: LayoutPlan, rank: RankObservation, call: Call) -> str | None:
    where = f"{call.fixture}: rank {rank.rank}"
    fixture = next((each for each in layout.fixtures if each.name == call.fixture), None)
    if fixture is None:
        return f"{where} made a call that was not planned"
    if call.outcome not in ("returned", "raised", "collective timeout"):
        return None
    if len(call.slices) != len(rank.pieces) or (call.outcome == "returned") != (call.returned is not None):
        return f"{where} stored {len(call.slices)} gradients of {len(rank.pieces)}, or no return value"
    for piece, values in zip(rank.pieces, call.slices, strict=True):
        absent = rank.rank in fixture.absent.get(piece.tensor, ())
        given = () if absent else tuple(fixture.gradients[piece.tensor][index] for index in piece.indices)
        if not _same_values(given, values.before) or (
            values.after is not None and len(values.after) != len(piece.indices)
        ):
            return f"{where}, {piece.entry} started from {values.before}, planned {given}"
    return None


def _same_values(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Equality in which NaN equals NaN: a fixture may hold one."""
    return len(one) == len(other) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True)
    )


def _fixture(layout: LayoutPlan, fixture: FixturePlan, seen: CellObservation) -> Iterator[Check]:
    calls = returned_everywhere(fixture, seen)
    if not calls:
        return
    want = expected(layout, fixture)
    yield from _norms(fixture, want, [(rank, call.returned) for rank, call in calls if call.returned])
    parts = held_around(seen, fixture)
    yield from _elements(fixture, want, parts)
    yield from _copies(fixture, parts)


def _norms(fixture: FixturePlan, want: Expected, returned: list[tuple[int, Returned]]) -> Iterator[Check]:
    clause = ids.NORM_GLOBAL if want.norm else ids.ZERO_NORM
    numbers = [(rank, norm_of(each)) for rank, each in returned]
    for rank, each in returned:
        yield Check(ids.NORM_NUMBER, _unusable(fixture, want, rank, each))
    for rank, number in numbers:
        if number is not None:
            right = _near(number, want.norm, want.norm_tolerance)
            yield Check(clause, None if right else _wrong_norm(fixture, want, rank, number, numbers))
    known = [(rank, number) for rank, number in numbers if number is not None]
    for rank, number in known[1:]:
        same = _near(number, known[0][1], 2 * want.norm_tolerance)
        yield Check(ids.NORM_SAME, None if same else _other_norm(fixture, known[0], (rank, number)))


def _elements(fixture: FixturePlan, want: Expected, parts: Iterable[Held]) -> Iterator[Check]:
    clause = _element_clause(fixture, want)
    for part in parts:
        if part.values.after is None:
            text = f"{fixture.name}: rank {part.rank}, {part.entry}: {part.values.problem}"
            yield Check(clause, Finding(fixture=fixture.name, rank=part.rank, tensor=part.tensor, text=text))
            continue
        for index, before, after in zip(part.indices, part.values.before, part.values.after, strict=True):
            right = _near(after, before * want.factor, want.element_tolerance)
            yield Check(clause, None if right else _wrong_element(fixture, want, part, index, before, after))


def _copies(fixture: FixturePlan, parts: Iterable[Held]) -> Iterator[Check]:
    first: dict[tuple[str, int], tuple[str, int, float]] = {}
    for part in parts:
        for index, after in zip(part.indices, part.values.after or (), strict=False):
            entry, rank, value = first.setdefault((part.tensor, index), (part.entry, part.rank, after))
            if (entry, rank) != (part.entry, part.rank):
                same = value.hex() == after.hex()
                yield Check(ids.COPIES, None if same else _other_copy(fixture, part, index, (rank, value), after))


def _element_clause(fixture: FixturePlan, want: Expected) -> str:
    if want.norm == 0:
        return ids.ZERO_NORM
    if fixture.limit == 0:
        return ids.ZERO_LIMIT
    return ids.SCALE_FACTOR if want.factor < 1 else ids.SCALE_UNDER


def _near(seen: float, wanted: float, tolerance: float) -> bool:
    # Not a comparison of differences alone: inf - inf and NaN must not count as near.
    return math.isfinite(seen) and abs(seen - wanted) <= abs(wanted) * tolerance


def norm_of(returned: Returned) -> float | None:
    """The norm that was meant: a DTensor's whole value where it has one, for its float() has a clause of its own."""
    return returned.full if returned.full is not None else returned.number


def _unusable(fixture: FixturePlan, want: Expected, rank: int, returned: Returned) -> Finding | None:
    if returned.problem is not None or returned.number is None:
        text = f"{fixture.name}: rank {rank} returned {returned.type}: {returned.problem}"
        return Finding(fixture=fixture.name, rank=rank, expected=want.norm, text=text)
    if returned.full is None or _near(returned.number, returned.full, 2 * want.norm_tolerance):
        return None
    text = (
        f"{fixture.name}: rank {rank} returned a {returned.type} on {returned.placements} of which float() gives "
        f"{returned.number!r} and full_tensor() {returned.full!r}"
    )
    return Finding(fixture=fixture.name, rank=rank, expected=returned.full, observed=returned.number, text=text)


def _wrong_norm(
    fixture: FixturePlan, want: Expected, rank: int, number: float, numbers: list[tuple[int, float | None]]
) -> Finding:
    each = ", ".join(f"{seen!r} on rank {where}{_times(seen, want.norm)}" for where, seen in numbers)
    text = f"{fixture.name}: expected norm {want.norm!r}, returned {each}"
    return Finding(fixture=fixture.name, rank=rank, expected=want.norm, observed=number, text=text)


def _times(seen: float | None, wanted: float) -> str:
    return f" ({seen / wanted:.4g} times)" if seen is not None and wanted else ""


def _other_norm(fixture: FixturePlan, first: tuple[int, float], other: tuple[int, float]) -> Finding:
    text = f"{fixture.name}: {first[1]!r} on rank {first[0]}, {other[1]!r} on rank {other[0]}"
    return Finding(fixture=fixture.name, rank=other[0], expected=first[1], observed=other[1], text=text)


def _wrong_element(
    fixture: FixturePlan, want: Expected, part: Held, index: int, before: float, after: float
) -> Finding:
    where = f"rank {part.rank}, {part.tensor}[{index}]"
    text = f"{fixture.name}: {where}: {before!r} x {want.factor!r} is {before * want.factor!r}, observed {after!r}"
    return Finding(
        fixture=fixture.name,
        rank=part.rank,
        tensor=part.tensor,
        index=index,
        expected=before * want.factor,
        observed=after,
        text=text,
    )


def _other_copy(fixture: FixturePlan, part: Held, index: int, first: tuple[int, float], after: float) -> Finding:
    text = f"{fixture.name}: {part.tensor}[{index}] is {first[1]!r} on rank {first[0]}, {after!r} on rank {part.rank}"
    return Finding(
        fixture=fixture.name,
        rank=part.rank,
        tensor=part.tensor,
        index=index,
        expected=first[1],
        observed=after,
        text=text,
    )


def returned_everywhere(fixture: FixturePlan, seen: CellObservation) -> list[tuple[int, Call]]:
    """The call on every rank; nothing when it did not return everywhere, for then it is judged as a whole."""
    calls = [(rank.rank, call) for rank in seen.ranks for call in rank.calls if call.fixture == fixture.name]
    complete = len(calls) == len(seen.ranks) and all(call.outcome == "returned" for _, call in calls)
    return calls if complete else []


def held_around(seen: CellObservation, fixture: FixturePlan) -> list[Held]:
    """Every entry of every rank around one call; no gradient counts as zeros, before and after."""
    return [
        Held(rank.rank, piece.entry, piece.tensor, piece.indices, _with_zeros(values, len(piece.indices)))
        for rank in seen.ranks
        for call in rank.calls
        if call.fixture == fixture.name and call.slices
        for piece, values in zip(rank.pieces, call.slices, strict=True)
    ]


def _with_zeros(values: Slice, count: int) -> Slice:
    zeros = {"before": (0.0,) * count} if not values.before else {}
    if values.after is None and values.problem is None:
        zeros |= {"after": (0.0,) * count}
    return values.model_copy(update=zeros) if zeros else values


def verdict_on(clause: str, made: list[Check]) -> ClauseVerdict:
    """What the checks of one clause, out of all that were made, come to."""
    checks = [check for check in made if check.clause == clause]
    found = [check.finding for check in checks if check.finding is not None]
    outcome = "violated" if found else "held" if checks else "not exercised"
    return ClauseVerdict(
        clause=clause,
        profile=ids.profile_of(clause),
        outcome=outcome,
        checks=len(checks),
        violations=len(found),
        ranks=tuple(sorted({each.rank for each in found if each.rank is not None})),
        first=found[0] if found else None,
    )


def _row(fixture: FixturePlan, want: Expected, calls: list[tuple[int, Call]], parts: list[Held]) -> NormRow:
    numbers = [norm_of(call.returned) if call.returned else None for _, call in calls]
    return NormRow(
        fixture=fixture.name,
        limit=fixture.limit,
        expected_norm=want.norm,
        expected_factor=want.factor,
        returned=tuple(numbers),
        ratio=tuple(None if number is None or not want.norm else number / want.norm for number in numbers),
        factor=tuple(_factor([part for part in parts if part.rank == rank]) for rank, _ in calls),
    )


def _factor(parts: list[Held]) -> float | None:
    """What the rank's largest element was multiplied by; None where nothing but zeros lies there."""
    pairs = [pair for part in parts for pair in zip(part.values.before, part.values.after or (), strict=False)]
    before, after = max(pairs, key=lambda pair: abs(pair[0]), default=(0.0, 0.0))
    return after / before if before else None
