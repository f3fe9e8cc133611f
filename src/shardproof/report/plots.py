"""Small plots as numbers: what a template draws, bars against the line that was expected."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shardproof.records.audit import NormRow

WIDTH, THICK, GAP = 160, 12, 4


@dataclass(frozen=True)
class Bar:
    """One rank's bar: where it begins, how long it is, and whether it misses what was expected."""

    y: int
    width: int
    off: bool


@dataclass(frozen=True)
class Plot:
    """Bars from the left, one below the other, and where the expected value lies; all in pixels."""

    width: int
    height: int
    thick: int
    want: int
    bars: tuple[Bar, ...]


def bars(row: NormRow, tolerance: float | None) -> Plot | None:
    """The norms of one call as bars; None where nothing finite and positive can be drawn.

    >>> row = NormRow(fixture="x", limit=1, expected_norm=5, expected_factor=0.2, returned=(5, 10), ratio=(), factor=())
    >>> [bar.width for bar in bars(row, 1e-6).bars], bars(row, 1e-6).want
    ([80, 160], 80)
    """
    lengths = [_length(value) for value in row.returned]
    largest = max([*lengths, _length(row.expected_norm)])
    if not largest:
        return None
    drawn = tuple(
        Bar(place * (THICK + GAP), round(WIDTH * length / largest), off(value, row.expected_norm, tolerance))
        for place, (length, value) in enumerate(zip(lengths, row.returned, strict=True))
    )
    height = max(1, len(drawn)) * (THICK + GAP)
    return Plot(WIDTH, height, THICK, round(WIDTH * _length(row.expected_norm) / largest), drawn)


def off(seen: float | None, wanted: float, tolerance: float | None) -> bool:
    """Whether a value that was seen misses what was expected by more than a relative tolerance.

    >>> off(1.0, 1.0, 0.0), off(None, 1.0, 0.0), off(float("nan"), 1.0, 0.1)
    (False, False, True)
    """
    if seen is None:
        return False
    return not (math.isfinite(seen) and abs(seen - wanted) <= abs(wanted) * (tolerance or 0.0))


def _length(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) and value > 0 else 0.0
