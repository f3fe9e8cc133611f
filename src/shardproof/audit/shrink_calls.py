"""Calls on a part of a layout: what is left of the call that failed, and calls with simpler numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from shardproof.audit.fixtures import HUGE, TINY, local_norms
from shardproof.audit.layouts import Layout, shares
from shardproof.audit.orders import norm_of_order
from shardproof.audit.shrink_layouts import Part
from shardproof.records.audit import FixturePlan

Element = tuple[str, int]
LARGE: Final = 2.0**40
"""Gradients above this, or below its inverse, are of the calls that leave float32's range with their squares."""


def probes(part: Part, call: FixturePlan) -> list[FixturePlan]:
    """Calls that may show on a part of a layout what a call showed on the whole; the nearest to that call first."""
    absent = {
        name: ranks
        for name, holders in call.absent.items()
        if name in part.came_from and (ranks := tuple(new for new, old in enumerate(part.ranks) if old in holders))
    }
    left = {name: [call.gradients[name][old] for old in olds] for name, olds in part.came_from.items()}
    first = _call(call, absent, left, math.nan)
    free = elements(part.layout, first)
    _put_back(call, left, free)
    norm = norm_of(first)
    found = [_call(call, absent, left, limit) for limit in limits(part.layout, call, first, norm)]
    if not special(call) and norm:
        plain = _call(call, absent, _placed(first, free, [1.0] * len(free)), math.nan)
        found += [
            plain.model_copy(update={"limit": limit}) for limit in limits(part.layout, call, plain, norm_of(plain))
        ]
    return found


def limits(layout: Layout, call: FixturePlan, smaller: FixturePlan, norm: float) -> list[float]:
    """Limits as far from the norm as the call's own was; above what one rank sees, and below the norm, too."""
    whole = norm_of(call)
    if not (call.limit > 0 and math.isfinite(call.limit) and norm and 0 < whole < math.inf and math.isfinite(norm)):
        return [call.limit]
    local = max(local_norms(layout, dict(smaller.gradients), call.norm_type), default=norm)
    between = [(local + norm) / 2] if local < norm and call.limit < whole else []
    return [norm * (call.limit / whole), *between]


def elements(layout: Layout, call: FixturePlan) -> list[Element]:
    """The elements that may be other than zero: those that no rank holds without having a gradient."""
    idle = {
        (share.tensor.name, index)
        for rank in range(layout.world_size)
        for share in shares(layout, rank)
        if rank in call.absent.get(share.tensor.name, ())
        for index in share.indices
    }
    every = [(name, index) for name, row in call.gradients.items() for index in range(len(row))]
    return [element for element in every if element not in idle]


def with_values(call: FixturePlan, free: Sequence[Element], values: Sequence[int], limit: float) -> FixturePlan:
    """The call with these integers, in the magnitude of the call's own gradients; what is not finite stays."""
    unit = magnitude(call)
    placed = _placed(call, free, [value * unit for value in values])
    kept = {
        name: tuple(
            old if not math.isfinite(old) else new for old, new in zip(call.gradients[name], placed[name], strict=True)
        )
        for name in call.gradients
    }
    return call.model_copy(update={"gradients": kept, "limit": limit})


def simple_limits(layout: Layout, call: FixturePlan) -> Iterator[float]:
    """Limits for a call, the simplest first; its own last. A limit that is special in itself has no other."""
    norm, unit = norm_of(call), magnitude(call)
    if call.limit > 0 and math.isfinite(call.limit) and math.isfinite(norm):
        yield unit
        if norm:
            local = max(local_norms(layout, dict(call.gradients), call.norm_type), default=norm)
            yield from (norm / 2, (local + norm) / 2, norm, 2 * norm)
    yield call.limit


def norm_of(call: FixturePlan) -> float:
    """The norm of a call's gradient, of the order that is asked for; NaN where it is not finite."""
    values = [value for row in call.gradients.values() for value in row]
    return norm_of_order(values, call.norm_type) if all(map(math.isfinite, values)) else math.nan


def magnitude(call: FixturePlan) -> float:
    """The unit of a call's gradients: one, or the power of two that makes them huge or tiny."""
    sizes = [abs(value) for row in call.gradients.values() for value in row if value and math.isfinite(value)]
    largest = max(sizes, default=1.0)
    return HUGE if largest > LARGE else TINY if largest < 1 / LARGE else 1.0


def special(call: FixturePlan) -> bool:
    """Whether something about the gradients is the point of the call: not finite, all zero, out of range."""
    values = [value for row in call.gradients.values() for value in row]
    return not all(map(math.isfinite, values)) or not any(values) or magnitude(call) != 1.0


def _put_back(call: FixturePlan, left: dict[str, list[float]], free: Sequence[Element]) -> None:
    """Where the element that is not finite was left out, the last one takes its place."""
    lost = [value for row in call.gradients.values() for value in row if not math.isfinite(value)]
    if lost and free and all(math.isfinite(value) for row in left.values() for value in row):
        name, index = free[-1]
        left[name][index] = lost[0]


def _call(
    call: FixturePlan, absent: dict[str, tuple[int, ...]], values: dict[str, list[float]], limit: float
) -> FixturePlan:
    rows = {name: tuple(row) for name, row in values.items()}
    return call.model_copy(update={"gradients": rows, "absent": absent, "limit": limit})


def _placed(call: FixturePlan, free: Sequence[Element], values: Sequence[float]) -> dict[str, list[float]]:
    rows = {name: [0.0] * len(row) for name, row in call.gradients.items()}
    for (name, index), value in zip(free, values, strict=True):
        rows[name][index] = value
    return rows
