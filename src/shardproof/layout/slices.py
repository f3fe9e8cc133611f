"""Which elements of a tensor a rank holds: for each dim a union of intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

Interval = tuple[int, int]
"""Indices start <= i < stop along one dim."""


@dataclass(frozen=True)
class Slice:
    """The elements whose index along every dim lies in one of that dim's intervals.

    >>> Slice.whole((2, 3)).numel
    6
    """

    dims: tuple[tuple[Interval, ...], ...]

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Slice:
        """Every element of a tensor of this shape."""
        return cls(tuple(((0, size),) for size in shape))

    @classmethod
    def flat(cls, start: int, stop: int) -> Slice:
        """Elements start..stop of a tensor seen as flat."""
        return cls((((start, stop),),))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many indices each dim holds: the shape of the local tensor."""
        return tuple(sum(stop - start for start, stop in intervals) for intervals in self.dims)

    @property
    def numel(self) -> int:
        """How many elements the slice holds."""
        return math.prod(self.shape)


def chunk(intervals: tuple[Interval, ...], parts: int, part: int, *, stride: int = 1) -> tuple[Interval, ...]:
    """Cut the indices in `intervals` into `parts` chunks of equal size, rounded up, and return one of them.

    The rule of `torch.chunk` and of DTensor's Shard: trailing chunks may be short or empty. With `stride` > 1
    the cut is into parts * stride chunks, of which this part gets every parts-th: DTensor's _StridedShard,
    which says that `stride` slices were cut before by an axis that stands later in the mesh.

    >>> chunk(((0, 5),), 2, 1)
    ((3, 5),)
    >>> chunk(((0, 8),), 2, 0, stride=2)
    ((0, 2), (4, 6))
    """
    total = sum(stop - start for start, stop in intervals)
    size = -(-total // (parts * stride))
    taken: tuple[Interval, ...] = ()
    for turn in range(stride):
        begin = (part + turn * parts) * size
        taken += _cut(intervals, min(begin, total), min(begin + size, total))
    return _joined(taken)


def _cut(intervals: tuple[Interval, ...], begin: int, end: int) -> tuple[Interval, ...]:
    """The indices number `begin` to `end` when the intervals are counted through."""
    found, passed = [], 0
    for start, stop in intervals:
        low, high = max(begin - passed, 0), min(end - passed, stop - start)
        if low < high:
            found.append((start + low, start + high))
        passed += stop - start
    return tuple(found)


def _joined(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    joined: list[Interval] = []
    for start, stop in intervals:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)
