"""How much a program that is not trusted may use."""

from __future__ import annotations

import dataclasses

MIB = 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of one run; those of level `none` are the wall clock and the output only."""

    wall_s: float = 20.0
    """Seconds until the whole process tree is killed."""
    cpu_s: int = 10
    """Seconds of processor time for each process."""
    memory_bytes: int = 512 * MIB
    """Address space of each process."""
    file_bytes: int = 16 * MIB
    """Size of each file written."""
    processes: int = 32
    """Processes and threads at one time."""
    open_files: int = 64
    """Open files of each process."""
    output_bytes: int = MIB
    """Bytes on standard output, and as many on standard error, until the tree is killed."""
