"""Which exact sum each logical tensor goes into: one for all, one for each group, or one for each parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardproof.layout import Identity
from shardproof.torch.catalog import Line

WHOLE = ""
"""The name of the one group when the caller names none."""


@dataclass(frozen=True)
class Buckets:
    """`of`: logical tensor -> number of its sum. `groups`: group -> the numbers of the sums that make it up."""

    of: Mapping[Identity, int]
    groups: Mapping[str, tuple[int, ...]]
    count: int


def buckets(lines: Iterable[Line], groups: Iterable[str], *, per_parameter: bool) -> Buckets:
    """Number the sums in an order that is the same on all ranks.

    Groups without tensors are kept, so that their norm is zero and not missing.
    """
    ordered = sorted(lines, key=lambda line: str(line.identity))
    names = sorted({*groups, *(line.group for line in ordered)}) or [WHOLE]
    if per_parameter:
        of = {line.identity: number for number, line in enumerate(ordered)}
        members = {name: tuple(of[line.identity] for line in ordered if line.group == name) for name in names}
        return Buckets(of, members, len(ordered))
    numbers = {name: number for number, name in enumerate(names)}
    return Buckets(
        {line.identity: numbers[line.group] for line in ordered},
        {name: (number,) for name, number in numbers.items()},
        len(names),
    )
