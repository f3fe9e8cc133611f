"""Finding what a rank's process started, so that nothing of a cell outlives it. Needs /proc; elsewhere finds none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_WRITES: Final = os.O_WRONLY


def found(ranks: Sequence[int], log_readers: Sequence[int]) -> set[int]:
    """Process ids of the ranks' descendants, and of whoever can still write to one of their logs.

    Descent finds those that closed everything, the log those whose parent has died. What did both (a daemon
    whose rank is gone) is not found.
    """
    if not _PROC.is_dir():
        return set()
    pipes = {_target(_PROC / "self" / "fd" / str(fd)) for fd in log_readers} - {""}
    processes = [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]
    ours = _descendants(set(ranks), processes) | {pid for pid in processes if _writes_to(pid, pipes)}
    return ours - {os.getpid(), *ranks}


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
