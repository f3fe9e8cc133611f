"""Side by side: every contestant in turn, round after round, so that a slow moment of the machine meets them all."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True)
class Times:
    """Seconds of one contestant: the median of all rounds, the quartiles, the fastest."""

    median: float
    lower: float
    upper: float
    fastest: float


def side_by_side(
    contestants: Mapping[str, Callable[[], object]], rounds: int, prepare: Callable[[], object] | None = None
) -> dict[str, Times]:
    """Call each contestant once untimed, then once in each round, after `prepare`; the order turns by one."""
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-1, rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if prepare:
                prepare()
            took = _timed(contestants[name])
            if number >= 0:
                seconds[name].append(took)
    return {name: _times(values) for name, values in seconds.items()}


def _timed(call: Callable[[], object]) -> float:
    gc.disable()
    begin = time.perf_counter()
    call()
    took = time.perf_counter() - begin
    gc.enable()
    return took


def _times(seconds: list[float]) -> Times:
    lower, _, upper = quantiles(seconds, n=4)
    return Times(median(seconds), lower, upper, min(seconds))
