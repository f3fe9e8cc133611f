"""When a collective fails: leave a note in the run's store, and find out which ranks leave none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch.distributed as dist

Answer = TypeVar("Answer")

ASKING = 2.0
"""Seconds that a rank whose collective failed waits for the notes of the others."""

LOOK = 0.5
"""Seconds after which a rank that still waits in a collective looks whether another one has left a note."""


@dataclass(frozen=True)
class Call:
    """One collective of this rank: the group, its global ranks, and the how manieth of that group it is."""

    group: Any
    ranks: tuple[int, ...]
    rank: int
    number: int
    what: str

    def key(self, number: int, name: object) -> str:
        """Where a note lies: each group and each of its collectives has places of its own."""
        return f"shardproof/{self.group.group_name}/{number}/{name}"


_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def begin(group: Any, ranks: tuple[int, ...], rank: int, what: str) -> Call:
    """Number a collective; ranks that make the same calls have the same numbers."""
    number = _numbers.get(group, 0)
    _numbers[group] = number + 1
    return Call(group, ranks, rank, number, what)


def others_failed(call: Call) -> bool | None:
    """Whether some rank of the group has left a note; None when the store gives no answer in time."""
    return _in_time(lambda: bool(_store().check([call.key(call.number, "failed")])), ASKING)


@dataclass
class _Asked:
    """What asking has brought so far: rank -> what failed there, and how long it took to the last look."""

    told: dict[int, str]
    seconds: float = 0.0


def answers(call: Call) -> dict[int, str] | None:
    """Leave a note and read those of the others: rank -> the collective that failed there. None without a store.

    A rank that is not in it left no note within ASKING: it ended, hangs, or has not made this call.
    """
    asked = _Asked({})
    finished = _in_time(lambda: _ask(call, asked), 2 * ASKING)
    # The host of the store may raise its own error and end a little before the others have done asking; by then
    # they have all had the time to leave their notes.
    return asked.told if finished or asked.seconds > 2 * LOOK else None


def _ask(call: Call, asked: _Asked) -> bool:
    store, begun = _store(), time.monotonic()
    _leave_notes(store, call)
    left = list(call.ranks)
    while True:
        missing = set(_missing(store, call, left))
        for rank in left:
            if rank not in missing:
                asked.told[rank] = store.get(call.key(call.number, rank)).decode()
        left = [rank for rank in left if rank in missing]
        asked.seconds = time.monotonic() - begun
        if not left or asked.seconds > ASKING:
            return True
        time.sleep(0.05)


def _leave_notes(store: Any, call: Call) -> None:
    # One rank may finish a collective that fails on another, and fail in the next: neighbours count as the same.
    for number in (call.number - 1, call.number, call.number + 1):
        store.set(call.key(number, call.rank), call.what)
        store.set(call.key(number, "failed"), str(call.rank))
    # Beyond the notes of this failure, so that none of them is taken for an answer to the next one.
    _numbers[call.group] = call.number + 3


def _missing(store: Any, call: Call, ranks: list[int]) -> list[int]:
    """The ranks without a note. Halving needs few questions when few are missing, as a store says only all or not."""
    if not ranks or store.check([call.key(call.number, rank) for rank in ranks]):
        return []
    if len(ranks) == 1:
        return ranks
    middle = len(ranks) // 2
    return _missing(store, call, ranks[:middle]) + _missing(store, call, ranks[middle:])


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


def _in_time(ask: Callable[[], Answer], seconds: float) -> Answer | None:
    """What the store says, or None: a question to a store whose host was stopped or cut off never returns."""
    said: list[Answer] = []

    def run() -> None:
        try:
            said.append(ask())
        except (RuntimeError, ValueError):
            # The host of the store ended (RuntimeError), or the process group was destroyed (ValueError).
            return

    thread = Thread(target=run, name="shardproof-asks", daemon=True)
    thread.start()
    thread.join(seconds)
    return said[0] if said else None


def described(call: Call, told: dict[int, str] | None) -> str:
    """What is known of the ranks of a collective that failed, in words."""
    if told is None:
        return (
            "which ranks are missing is not known, because the run's store does not answer either: the process that "
            "hosts it, often rank 0, may be one of them"
        )
    silent = [rank for rank in call.ranks if rank not in told]
    if silent:
        return f"ranks {silent} do not answer: each ended, hangs, or has not made this call"
    if len(set(told.values())) == 1:
        return "all of them answer, so a connection between them failed"
    return f"they made different calls: {_by_call(told)}"


def _by_call(told: dict[int, str]) -> str:
    calls: dict[str, list[int]] = {}
    for rank, what in told.items():
        calls.setdefault(what, []).append(rank)
    return "; ".join(f"ranks {_shown(ranks)}: {what}" for what, ranks in calls.items())


def _shown(ranks: Sequence[int]) -> str:
    return f"{ranks[:16]}" + (f" and {len(ranks) - 16} more" if len(ranks) > 16 else "")
