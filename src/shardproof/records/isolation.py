"""What is stored about a program that was run isolated: the level reached, and how the program ended."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Level = Literal["process", "namespaces", "none"]
"""How a program that is not trusted is held; `process` is not a security boundary."""

Ending = Literal[
    "exited",
    "signal",
    "wall time",
    "cpu time",
    "output",
    "memory",
    "left processes",
    "not started",
    "supervisor lost",
]
"""How a run ended; only `exited`, `signal` and `left processes` are the program's own doing to the end."""


class Isolation(BaseModel):
    """The level that was asked for, the one that was reached, and what it does and does not hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requested: Level
    achieved: Level
    user: int | None
    """The unprivileged uid of this run alone, where the caller was root and could drop to one."""
    enforced: tuple[str, ...]
    not_enforced: tuple[str, ...]


class RunRecord(BaseModel):
    """How one program ran: its ending, what it left, and the isolation it ran under."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ending: Ending
    exit_code: int | None
    signal: str | None
    detail: str
    """One sentence for a reader."""
    left_processes: int
    """Processes alive after the program itself had ended; all were killed."""
    unkilled_processes: int
    """Processes that could not be killed within the time for it: 0 unless the level failed."""
    wrote_elsewhere: tuple[str, ...]
    """What it made outside its own folder, as far as the level can see; removed."""
    wrote_in_folder: int
    """Entries it made in its own folder; removed."""
    wall_s: float
    cpu_s: float
    stdout_bytes: int
    stderr_tail: str
    isolation: Isolation
