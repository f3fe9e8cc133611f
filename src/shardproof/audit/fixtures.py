"""The calls that are made under each layout: integer gradients whose norm is an integer, and telling limits.

Squares and their sums stay far below 2**24, so every partial sum is exact in float32 in any order, and a
difference between ranks or layouts is a mistake and not rounding.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from typing import Final

from shardproof.audit.layouts import Layout, coordinates, shares
from shardproof.audit.orders import norm_of_order
from shardproof.records.audit import FixturePlan

Gradients = dict[str, tuple[float, ...]]

# Powers of two near 1e25 and 1e-25: every mantissa stays, the squares leave float32's range.
HUGE: Final = 2.0**83
TINY: Final = 2.0**-83

# Exact in every dtype; their norm is irrational, so that a root of rounded parts shows in its last bits.
SHARED: Final = (1.5, -2.25, 3.0, 0.625, -1.125, 2.0, 4.5, -0.875)

# Below the root mean square of any layout's gradient, which some take for the norm.
FAR: Final = 32.0

_FREE = 4  # By Lagrange, four squares reach any rest; so four elements make the norm an integer.


def fixtures(layout: Layout, norm_type: float = 2.0) -> tuple[FixturePlan, ...]:
    """The calls for one layout, in the order in which they are made: those that core is graded by come first.

    `between` lies between the largest norm that one rank can see and the global norm, `between-axes` between the
    largest norm short of it that some of the axes can see and the global norm; each is left out where there is no
    such norm. Where a layout has idle ranks, their parameters have no gradient in any call but `under`. The limits lie
    around the norm of order `norm_type`, which is what the subject is asked for.
    """
    gradients = base_gradients(layout, order=norm_type)
    norm = _norm(gradients, norm_type)
    absent = {tensor.name: tensor.idle for tensor in layout.tensors if tensor.idle}
    calls = [*_core(layout, gradients, norm, norm_type), *_strict(layout, gradients, norm)]
    calls = [call.model_copy(update={"norm_type": norm_type}) for call in calls] if norm_type != 2 else calls
    return tuple(call if call.name == "under" else call.model_copy(update={"absent": absent}) for call in calls)


def base_gradients(layout: Layout, *, everywhere: bool = False, order: float = 2.0) -> Gradients:
    """Small nonzero integers for each logical tensor, row-major; their global norm is an integer.

    They grow along each tensor, so that no two slices have the same norm; for the largest magnitude, order inf, no
    two elements have the same. What idle ranks hold is zero, unless every rank is to have a gradient `everywhere`.
    """
    trained = [tensor for tensor in layout.tensors if not tensor.frozen]
    sizes = {tensor.name: math.prod(tensor.shape) for tensor in trained}
    counter = itertools.count()
    values = {name: [_value(next(counter), place) for place in range(size)] for name, size in sizes.items()}
    if order == math.inf:
        values = _distinct(layout, values)
    for name, index in () if everywhere else _idle_elements(layout):
        values[name][index] = 0.0
    if values and order != math.inf:
        largest = max((values[tensor.name] for tensor in trained if not tensor.idle), key=len)
        largest[-_FREE:] = [0.0] * _FREE
        fixed = sum(int(value) ** 2 for row in values.values() for value in row)
        largest[-_FREE:] = _roots(fixed)
    return {name: tuple(row) for name, row in values.items()}


def local_norms(layout: Layout, gradients: Gradients, order: float = 2.0) -> list[float]:
    """The norm of what each rank holds, copies included: what a rank sees without asking the others."""
    return [_norm_seen_by(layout, gradients, [rank], order) for rank in range(layout.world_size)]


def partial_norms(layout: Layout, gradients: Gradients, order: float = 2.0) -> list[float]:
    """The norms that a sum over all axes but one gives, each element counted once: one for each such set of ranks."""
    where = [coordinates(layout, rank) for rank in range(layout.world_size)]
    planes = [(axis, index) for axis, size in layout.axes.items() if size > 1 for index in range(size)]
    return [
        _norm_seen_by(layout, gradients, [rank for rank, at in enumerate(where) if at[axis] == index], order)
        for axis, index in planes
    ]


def _core(layout: Layout, gradients: Gradients, norm: float, order: float) -> list[FixturePlan]:
    zeros = {name: tuple(0.0 for _ in values) for name, values in gradients.items()}
    full = base_gradients(layout, everywhere=True, order=order)
    above = 2 * _norm(full, order)
    calls = [
        FixturePlan(name="over", title="limit is half the norm", limit=norm / 2, gradients=gradients),
        FixturePlan(name="far-over", title="limit is a 32nd of the norm", limit=norm / FAR, gradients=gradients),
        FixturePlan(name="under", title="limit is twice the norm", limit=above, gradients=full),
        FixturePlan(name="at", title="limit is the norm", limit=norm, gradients=gradients),
        FixturePlan(name="zero-gradient", title="every gradient is zero", limit=1.0, gradients=zeros),
    ]
    return calls[:2] + _between(layout, gradients, norm, order) + calls[2:]


def _between(layout: Layout, gradients: Gradients, norm: float, order: float) -> list[FixturePlan]:
    """The calls whose limit lies between a norm that is too small, because too few ranks were asked, and the norm."""
    titles = {
        "between": "limit is above every rank's own norm and below the global norm",
        "between-axes": "limit is above every norm over some of the axes that misses something, and below the norm",
    }
    partial = [each for each in partial_norms(layout, gradients, order) if each < norm] if len(layout.axes) > 1 else []
    local = max(local_norms(layout, gradients, order), default=norm)
    seen = {"between": local if layout.tensors else norm, "between-axes": max(partial, default=norm)}
    return [
        FixturePlan(name=name, title=titles[name], limit=_above(part, norm), gradients=gradients)
        for name, part in seen.items()
        if part < norm
    ]


def _strict(layout: Layout, gradients: Gradients, norm: float) -> list[FixturePlan]:
    """The calls that only the strict profile judges; what has a float16 tensor cannot hold huge or tiny values."""
    calls = [
        ("zero-limit", "limit is zero", 0.0, gradients),
        ("negative-limit", "limit is negative", -1.0, gradients),
        ("nan-limit", "limit is NaN", math.nan, gradients),
        ("inf-limit", "limit is inf: no limit", math.inf, gradients),
    ]
    if all(tensor.dtype != "float16" for tensor in layout.tensors):
        calls += [
            ("huge", "values near 1e25, limit is half the norm", norm * HUGE / 2, _scaled(gradients, HUGE)),
            ("tiny", "values near 1e-25, limit is half the norm", norm * TINY / 2, _scaled(gradients, TINY)),
        ]
    if layout.tensors:
        calls += [("shared", "eight numbers, the same in every layout, and zeros", 100.0, _shared(layout, gradients))]
        calls += [
            (
                f"{name}-one-rank",
                f"one element, on as few ranks as hold one, is {word}",
                norm / 2,
                _with_rarest(layout, gradients, value),
            )
            for name, word, value in (("nan", "NaN", math.nan), ("inf", "inf", math.inf))
        ]
    return [
        FixturePlan(name=name, title=title, limit=limit, gradients=values, profile="strict")
        for name, title, limit, values in calls
    ]


def _shared(layout: Layout, gradients: Gradients) -> Gradients:
    """The shared numbers, spread over the elements that every rank trains; all else is zero."""
    idle = set(_idle_elements(layout))
    places = [
        (name, index) for name, row in gradients.items() for index in range(len(row)) if (name, index) not in idle
    ]
    values = {name: [0.0] * len(row) for name, row in gradients.items()}
    for position, value in enumerate(SHARED):
        name, index = places[position * len(places) // len(SHARED)]
        values[name][index] = value
    return {name: tuple(row) for name, row in values.items()}


def _scaled(gradients: Gradients, factor: float) -> Gradients:
    return {name: tuple(value * factor for value in row) for name, row in gradients.items()}


def _with_rarest(layout: Layout, gradients: Gradients, value: float) -> Gradients:
    """The gradients with one element replaced: of those that the fewest ranks hold, the one on the last rank."""
    holders: dict[tuple[str, int], list[int]] = {}
    for rank in range(layout.world_size):
        for share in shares(layout, rank):
            for index in share.indices if rank not in share.tensor.idle else ():
                holders.setdefault((share.tensor.name, index), []).append(rank)
    rarest, at = min(holders, key=lambda element: (len(set(holders[element])), -max(holders[element])))
    row = list(gradients[rarest])
    row[at] = value
    return gradients | {rarest: tuple(row)}


def _idle_elements(layout: Layout) -> set[tuple[str, int]]:
    """What lies on ranks that have no gradient for it."""
    return {
        (share.tensor.name, index)
        for rank in range(layout.world_size)
        for share in shares(layout, rank)
        if rank in share.tensor.idle
        for index in share.indices
    }


def _norm_seen_by(layout: Layout, gradients: Gradients, ranks: Iterable[int], order: float) -> float:
    seen = {(share.tensor.name, index) for rank in ranks for share in shares(layout, rank) for index in share.indices}
    return norm_of_order([gradients[name][index] for name, index in sorted(seen)], order)


def _norm(gradients: Gradients, order: float) -> float:
    return norm_of_order([value for row in gradients.values() for value in row], order)


def _value(count: int, place: int) -> float:
    magnitude = 1 + (5 * count + place // 3) % 4 + place // 8
    return float(-magnitude if count % 3 == 1 else magnitude)


def _distinct(layout: Layout, values: dict[str, list[float]]) -> dict[str, list[float]]:
    """The same signs, and magnitudes of which the largest lie on the fewest ranks."""
    holders = Counter(
        (share.tensor.name, index)
        for rank in range(layout.world_size)
        for share in shares(layout, rank)
        for index in share.indices
    )
    listed = sorted(
        ((name, index) for name, row in values.items() for index in range(len(row))), key=holders.__getitem__
    )
    for place, (name, index) in enumerate(listed):
        # Up to 256 every integer is a bfloat16.
        values[name][index] = math.copysign(max(1.0, 256.0 - place), values[name][index])
    return values


def _roots(fixed: int) -> list[float]:
    """Four positive integers whose squares make `fixed` up to the next square they can; the most even choice."""
    found = (_four_squares(norm * norm - fixed) for norm in itertools.count(math.isqrt(fixed) + 1))
    return [float(value) for value in next(choices for choices in found if choices)]


def _four_squares(total: int) -> tuple[int, ...]:
    """Positive integers a <= b <= c <= d whose squares add up to `total`, with the smallest d; () for none."""
    triples = itertools.combinations_with_replacement(range(1, math.isqrt(total) + 1), 3)
    fours = [(a, b, c, math.isqrt(max(0, total - a * a - b * b - c * c))) for a, b, c in triples]
    fits = [four for four in fours if four[3] >= four[2] and sum(value * value for value in four) == total]
    return min(fits, key=max, default=())


def _above(part: float, norm: float) -> float:
    """The smallest of norm x 3/4, 7/8, 15/16, ... above `part`."""
    gap = 0.25
    while norm * (1 - gap) <= part:
        gap /= 2
    return norm * (1 - gap)
