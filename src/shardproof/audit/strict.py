"""The strict profile: what the contract promises beyond what every correct library does, graded apart.

Core's tolerances admit an epsilon beside the norm and a norm rounded to the gradients' dtype. Strict demands the
bits: the float64 nearest to the exact norm, each element rounded once, nothing written under the limit, limits
checked, and gradients left alone where the norm is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from shardproof.audit import clauses as ids
from shardproof.audit.checks import Check, Held, held_around, norm_of, returned_everywhere
from shardproof.audit.clauses import Expected, expected
from shardproof.audit.endings import shortened
from shardproof.records.audit import (
    Call,
    CellObservation,
    Finding,
    FixturePlan,
    LayoutPlan,
    RankObservation,
)
from shardproof.sums.kernels import Format
from shardproof.sums.kernels.python_kernel import decoded, encoded

EXTREME = ("huge", "tiny")


def checks(layout: LayoutPlan, seen: CellObservation) -> Iterator[Check]:
    """Every strict check on one cell; a call that did not end on a rank is a violation of its fixture's clause."""
    for fixture in layout.fixtures:
        calls = [(rank, call) for rank in seen.ranks for call in rank.calls if call.fixture == fixture.name]
        if not calls:
            continue
        stuck = [(rank, call) for rank, call in calls if call.outcome not in ("returned", "raised")]
        if stuck or len(calls) != len(seen.ranks):
            if fixture.profile == "strict":
                yield Check(clause_of(fixture), _never_ended(fixture, stuck or calls))
            continue
        yield from _fixture(layout, fixture, seen, calls)


def _fixture(
    layout: LayoutPlan, fixture: FixturePlan, seen: CellObservation, calls: list[tuple[RankObservation, Call]]
) -> Iterator[Check]:
    if not limit_allowed(fixture):
        yield from _refused(fixture, seen, calls)
    elif not finite(fixture):
        yield from _left_alone(fixture, seen, calls)
    elif returned_everywhere(fixture, seen):
        yield from _bits(layout, fixture, seen)
    elif fixture.profile == "strict":
        raised = next((rank.rank, call) for rank, call in calls if call.outcome == "raised")
        text = f"{fixture.name}: rank {raised[0]} raised {shortened(raised[1].error or '')}"
        yield Check(clause_of(fixture), Finding(fixture=fixture.name, rank=raised[0], text=text))


def limit_allowed(fixture: FixturePlan) -> bool:
    """Whether the limit is one that a clip takes: not negative and not NaN."""
    return fixture.limit >= 0


def finite(fixture: FixturePlan) -> bool:
    """Whether every gradient of the fixture is a finite number."""
    return all(math.isfinite(value) for row in fixture.gradients.values() for value in row)


def clause_of(fixture: FixturePlan) -> str:
    """The strict clause that a strict fixture is made for."""
    if not limit_allowed(fixture):
        return ids.LIMIT_DOMAIN
    if not finite(fixture):
        return ids.NON_FINITE
    if fixture.limit == 0:
        return ids.ZERO_LIMIT
    return ids.RANGE if fixture.name in EXTREME else ids.BITS_NORM


def _never_ended(fixture: FixturePlan, calls: Sequence[tuple[RankObservation, Call]]) -> Finding:
    rank, call = calls[0]
    text = f"{fixture.name}: rank {rank.rank}: {call.outcome} ({call.stage}), which the other ranks cannot know"
    return Finding(fixture=fixture.name, rank=rank.rank, text=text)


def _refused(fixture: FixturePlan, seen: CellObservation, calls: list[tuple[RankObservation, Call]]) -> Iterator[Check]:
    for rank, call in calls:
        taken = call.outcome == "returned"
        text = f"{fixture.name}: rank {rank.rank} took the limit {fixture.limit!r} and returned"
        finding = Finding(fixture=fixture.name, rank=rank.rank, text=text) if taken else None
        yield Check(ids.LIMIT_DOMAIN, finding)
    yield from _untouched(fixture, seen, ids.LIMIT_DOMAIN)


def _left_alone(
    fixture: FixturePlan, seen: CellObservation, calls: list[tuple[RankObservation, Call]]
) -> Iterator[Check]:
    outcomes = {call.outcome for _, call in calls}
    if len(outcomes) > 1:
        raised = [rank.rank for rank, call in calls if call.outcome == "raised"]
        text = f"{fixture.name}: ranks {raised} raised, the others returned"
        yield Check(ids.NON_FINITE, Finding(fixture=fixture.name, rank=raised[0], text=text))
    for rank, call in calls:
        number = norm_of(call.returned) if call.returned else None
        hidden = call.outcome == "returned" and (number is None or math.isfinite(number))
        text = f"{fixture.name}: rank {rank.rank} returned {number!r} although a gradient is not finite"
        finding = Finding(fixture=fixture.name, rank=rank.rank, observed=number, text=text) if hidden else None
        yield Check(ids.NON_FINITE, finding)
    yield from _untouched(fixture, seen, ids.NON_FINITE)


def _untouched(fixture: FixturePlan, seen: CellObservation, clause: str) -> Iterator[Check]:
    for part in held_around(seen, fixture):
        rows = zip(part.indices, part.values.before, part.values.after or (), strict=False)
        changed = next(((index, before, after) for index, before, after in rows if not _same(before, after)), None)
        if part.values.after is None and part.values.problem:
            text = f"{fixture.name}: rank {part.rank}, {part.entry}: {part.values.problem}"
            yield Check(clause, Finding(fixture=fixture.name, rank=part.rank, tensor=part.tensor, text=text))
        else:
            yield Check(clause, _wrote(fixture, part, *changed) if changed else None)


def _bits(layout: LayoutPlan, fixture: FixturePlan, seen: CellObservation) -> Iterator[Check]:
    want = expected(layout, fixture)
    dtypes = {tensor.name: Format(tensor.dtype) for tensor in layout.tensors}
    clause = ids.RANGE if fixture.name in EXTREME else ids.BITS_NORM
    for rank, call in returned_everywhere(fixture, seen):
        number = norm_of(call.returned) if call.returned else None
        if number is not None:
            yield Check(clause, None if _same(number, want.norm) else _other_norm(fixture, want, rank, number))
    for part in held_around(seen, fixture):
        yield from _element_bits(fixture, want, part, dtypes[part.tensor])


def _element_bits(fixture: FixturePlan, want: Expected, part: Held, dtype: Format) -> Iterator[Check]:
    clause = _element_clause(fixture, want)
    for index, before, after in zip(part.indices, part.values.before, part.values.after or (), strict=False):
        if index < 0:
            continue
        right = before if want.factor == 1.0 else decoded(dtype, encoded(dtype, before * want.factor))
        same = after == 0 if fixture.limit == 0 else _same(after, right)
        yield Check(clause, None if same else _wrong(fixture, part, index, right, after))


def _element_clause(fixture: FixturePlan, want: Expected) -> str:
    if fixture.name in EXTREME:
        return ids.RANGE
    if fixture.limit == 0:
        return ids.ZERO_LIMIT
    return ids.BITS_UNDER if want.factor == 1.0 else ids.BITS_ELEMENTS


def _same(one: float, other: float) -> bool:
    return one.hex() == other.hex()


def _other_norm(fixture: FixturePlan, want: Expected, rank: int, number: float) -> Finding:
    text = f"{fixture.name}: rank {rank} returned {number!r}, the exact norm rounds to {want.norm!r}"
    return Finding(fixture=fixture.name, rank=rank, expected=want.norm, observed=number, text=text)


def _wrong(fixture: FixturePlan, part: Held, index: int, right: float, after: float) -> Finding:
    text = (
        f"{fixture.name}: rank {part.rank}, {part.tensor}[{index}]: expected {right!r} to the bit, observed {after!r}"
    )
    return Finding(
        fixture=fixture.name,
        rank=part.rank,
        tensor=part.tensor,
        index=index,
        expected=right,
        observed=after,
        text=text,
    )


def _wrote(fixture: FixturePlan, part: Held, index: int, before: float, after: float) -> Finding:
    text = f"{fixture.name}: rank {part.rank}, {part.tensor}[{index}] was {before!r}, is {after!r}: not left alone"
    return Finding(
        fixture=fixture.name,
        rank=part.rank,
        tensor=part.tensor,
        index=index,
        expected=before,
        observed=after,
        text=text,
    )
