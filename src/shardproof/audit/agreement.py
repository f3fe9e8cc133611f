"""When an observation and a prediction agree: outcome, norm and every element on every rank, within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from shardproof.audit import checks
from shardproof.audit.clauses import expected, tolerances
from shardproof.audit.orders import norm_of_order
from shardproof.audit.strict import finite, limit_allowed
from shardproof.failures.lowering import Ended
from shardproof.records.audit import Call, CellObservation, FixturePlan, LayoutPlan

Told = Ended
"""What was observed has the form of what is predicted: an outcome, a norm, and the values of each piece."""

Part = Literal["all", "norm", "values"]

ROUNDING: Final = 1e-11
"""Results of the map are rounded to 12 decimals, relative to values near one."""

_OUTCOMES: Final = {"returned": "returned", "raised": "raised", "collective timeout": "hang", "did not return": "hang"}


def seen_in(layout: LayoutPlan, fixture: FixturePlan, seen: CellObservation) -> tuple[Told, ...] | None:
    """What each rank was seen to do in one call; None where a rank did not make it, or died."""
    calls = [next((call for call in rank.calls if call.fixture == fixture.name), None) for rank in seen.ranks]
    if len(calls) != layout.world_size:
        return None
    told = [_told(call) for call in calls if call is not None and call.outcome in _OUTCOMES]
    return tuple(told) if len(told) == len(calls) else None


def _told(call: Call) -> Told:
    if call.outcome != "returned" or call.returned is None:
        return Ended(outcome="hang" if _OUTCOMES[call.outcome] == "hang" else "raised")
    return Ended(norm=checks.norm_of(call.returned), values=tuple(each.after for each in call.slices))


def wanted(layout: LayoutPlan, fixture: FixturePlan) -> tuple[tuple[Told, ...], float, float]:
    """What the reference does in a call, and the tolerances of norm and elements, relative.

    A limit that is no limit raises; a gradient that is not finite gives a norm that is not, and stays. The tolerances
    are those of the finite values then: a program that does something else rounds as it always does.
    """
    pieces = [[piece for piece in layout.pieces if piece.rank == rank] for rank in range(layout.world_size)]
    values = [value for row in fixture.gradients.values() for value in row]
    admitted = tolerances(layout, norm_of_order([each for each in values if math.isfinite(each)], fixture.norm_type))
    if not limit_allowed(fixture):
        return tuple(Ended(outcome="raised") for _ in pieces), *admitted
    given = [
        tuple(
            None
            if rank in fixture.absent.get(piece.tensor, ())
            else tuple(fixture.gradients[piece.tensor][index] for index in piece.indices)
            for piece in held
        )
        for rank, held in enumerate(pieces)
    ]
    if not finite(fixture):
        norm = math.nan if any(math.isnan(value) for value in values) else math.inf
        return tuple(Ended(norm=norm, values=rows) for rows in given), *admitted
    want = expected(layout, fixture)
    scaled = [
        tuple(None if row is None else tuple(value * want.factor for value in row) for row in rows) for rows in given
    ]
    ended = tuple(Ended(norm=want.norm, values=rows) for rows in scaled)
    return ended, want.norm_tolerance, want.element_tolerance


def agrees(
    seen: Sequence[Told], told: Sequence[Ended], norm_tolerance: float, element_tolerance: float, part: Part = "all"
) -> bool:
    """Whether a prediction fits what was seen on every rank; what it says nothing about fits.

    Args:
        seen: one for each rank.
        told: one for each rank.
        norm_tolerance, element_tolerance: relative; the elements' grows with the epsilon beside a norm that is small.
        part: "all", or only the "norm" or the "values".
    """
    return len(seen) == len(told) and all(
        one.outcome == other.outcome
        and (part == "values" or _near_norm(one.norm, other.norm, norm_tolerance))
        and (part == "norm" or all(_near(a, b, element_tolerance) for a, b in _pairs(one, other)))
        for one, other in zip(seen, told, strict=True)
    )


def departs(
    told: Sequence[Ended], right: Sequence[Told], norm_tolerance: float, element_tolerance: float, part: Part = "all"
) -> bool:
    """Whether a prediction, or what was seen, does not fit the reference."""
    return not agrees(right, told, norm_tolerance, element_tolerance, part)


def residual(seen: Sequence[Told], told: Sequence[Ended]) -> float:
    """The largest relative difference over norms and elements; inf where an outcome differs."""
    if len(seen) != len(told) or any(a.outcome != b.outcome for a, b in zip(seen, told, strict=True)):
        return math.inf
    both = [pair for one, other in zip(seen, told, strict=True) for pair in _pairs(one, other)]
    both += [(a.norm, b.norm) for a, b in zip(seen, told, strict=True) if a.norm is not None and b.norm is not None]
    return max((_relative(a, b) for a, b in both), default=0.0)


def _pairs(one: Ended, other: Ended) -> Iterator[tuple[float, float]]:
    for seen, told in zip(one.values or (), other.values or (), strict=False):
        if seen is not None and told is not None:
            # A prediction has padding behind the elements; an observation keeps it elsewhere.
            yield from zip(seen, told, strict=False)


def _near_norm(seen: float | None, told: float | None, tolerance: float) -> bool:
    return told is None or (seen is not None and _near(seen, told, tolerance))


def _near(seen: float, told: float, tolerance: float) -> bool:
    if not (math.isfinite(seen) and math.isfinite(told)):
        return seen == told or (math.isnan(seen) and math.isnan(told))
    return abs(seen - told) <= tolerance * abs(told) + ROUNDING * min(1.0, abs(told) or 1.0)


def _relative(seen: float, told: float) -> float:
    if not (math.isfinite(seen) and math.isfinite(told)):
        return 0.0 if seen == told or (math.isnan(seen) and math.isnan(told)) else math.inf
    return abs(seen - told) / max(abs(seen), abs(told)) if seen or told else 0.0
