"""Finding what a rank's process started, so that nothing of a cell outlives it. Needs /proc; elsewhere finds none."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_WRITES: Final = os.O_WRONLY
_PR_SET_CHILD_SUBREAPER: Final = 36


def adopt_orphans() -> None:
    """Make this process the parent of those of its descendants whose own parent ends; only Linux can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def found(ranks: Sequence[int], log_readers: Sequence[int], forkserver: int | None, others: Iterable[int]) -> set[int]:
    """Process ids of the ranks' descendants, and of whoever can still write to one of their logs.

    Ranks adopt the daemons below them; where a rank is gone the forkserver does, whose children are ranks else.

    Args:
        ranks: process ids of the ranks that are to end.
        log_readers: the harness's ends of their logs.
        forkserver: process id of the forkserver; None where there is none.
        others: process ids of ranks that go on.
    """
    if not _PROC.is_dir():
        return set()
    pipes = {_target(_PROC / "self" / "fd" / str(fd)) for fd in log_readers} - {""}
    processes = [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]
    adopted = {pid for pid in processes if forkserver and parent(pid) == forkserver} - set(others)
    ours = adopted | _descendants({*ranks, *adopted}, processes)
    ours |= {pid for pid in processes if _writes_to(pid, pipes)}
    # The forkserver holds a rank's end of the log until it has said who was started.
    return ours - {os.getpid(), *ranks, forkserver or 0}


def _descendants(roots: set[int], processes: Iterable[int]) -> set[int]:
    parents = {pid: above for pid in processes if (above := parent(pid)) is not None}
    family = set(roots)
    while more := {pid for pid, above in parents.items() if above in family} - family:
        family |= more
    return family


def parent(pid: int) -> int | None:
    """The parent's process id; None where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name in parentheses may itself hold spaces and parentheses.
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return None


def _writes_to(pid: int, pipes: set[str]) -> bool:
    with contextlib.suppress(OSError):
        return any(_target(fd) in pipes and _is_writer(pid, fd.name) for fd in (_PROC / str(pid) / "fd").iterdir())
    return False


def _target(fd: Path) -> str:
    with contextlib.suppress(OSError):
        return str(fd.readlink())
    return ""


def _is_writer(pid: int, fd: str) -> bool:
    with contextlib.suppress(OSError, ValueError, IndexError):
        flags = (_PROC / str(pid) / "fdinfo" / fd).read_text().split("flags:")[1].split()[0]
        return int(flags, 8) & os.O_ACCMODE == _WRITES
    return False
