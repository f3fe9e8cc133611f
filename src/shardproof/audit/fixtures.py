"""The calls that are made under each layout: integer gradients whose norm is an integer, and telling limits.

Squares and their sums stay far below 2**24, so every partial sum is exact in float32 in any order, and a
difference between ranks or layouts is a mistake and not rounding.
"""

from __future__ import annotations

import itertools
import math

from shardproof.audit.layouts import Layout, shares
from shardproof.clip import global_norm
from shardproof.records.audit import FixturePlan

_FREE = 4  # By Lagrange, four squares reach any rest; so four elements make the norm an integer.


def fixtures(layout: Layout) -> tuple[FixturePlan, ...]:
    """The calls for one layout, in the order in which they are made.

    `between` lies between the largest norm that one rank can see and the global norm; it is left out where
    every rank sees everything.
    """
    gradients = base_gradients(layout)
    zeros = {name: tuple(0.0 for _ in values) for name, values in gradients.items()}
    norm = global_norm(list(gradients.values()))
    calls = [
        FixturePlan(name="over", title="limit is half the norm", limit=norm / 2, gradients=gradients),
        FixturePlan(name="under", title="limit is twice the norm", limit=norm * 2, gradients=gradients),
        FixturePlan(name="at", title="limit is the norm", limit=norm, gradients=gradients),
        FixturePlan(name="zero-gradient", title="every gradient is zero", limit=1.0, gradients=zeros),
        FixturePlan(name="zero-limit", title="limit is zero", limit=0.0, gradients=gradients, profile="strict"),
    ]
    local = max(local_norms(layout, gradients), default=norm)
    if layout.tensors and local < norm:
        title = "limit is above every rank's own norm and below the global norm"
        calls.insert(1, FixturePlan(name="between", title=title, limit=_between(local, norm), gradients=gradients))
    return tuple(calls)


def base_gradients(layout: Layout) -> dict[str, tuple[float, ...]]:
    """Small nonzero integers for each logical tensor, row-major; their global norm is an integer.

    They grow along each tensor, so that no two slices have the same norm.
    """
    counter = itertools.count()
    values = {
        tensor.name: [_value(next(counter), place) for place in range(size)]
        for tensor, size in ((tensor, math.prod(tensor.shape)) for tensor in layout.tensors)
    }
    if values:
        largest = max(values.values(), key=len)
        largest[-_FREE:] = [0.0] * _FREE
        fixed = sum(int(value) ** 2 for row in values.values() for value in row)
        largest[-_FREE:] = _roots(fixed)
    return {name: tuple(row) for name, row in values.items()}


def local_norms(layout: Layout, gradients: dict[str, tuple[float, ...]]) -> list[float]:
    """The norm of what each rank holds, copies included: what a rank sees without asking the others."""
    return [
        global_norm(
            [[gradients[share.tensor.name][index] for index in share.indices] for share in shares(layout, rank)]
        )
        for rank in range(layout.world_size)
    ]


def _value(count: int, place: int) -> float:
    magnitude = 1 + (5 * count + place // 3) % 4 + place // 8
    return float(-magnitude if count % 3 == 1 else magnitude)


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


def _between(local: float, norm: float) -> float:
    """The smallest of norm x 3/4, 7/8, 15/16, ... above `local`."""
    gap = 0.25
    while norm * (1 - gap) <= local:
        gap /= 2
    return norm * (1 - gap)
