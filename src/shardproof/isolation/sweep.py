"""Finding the processes of a run whose supervisor is gone, by the marker in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

SWEEP_S = 10.0


def kill_marked(marker: str) -> int:
    """Kill every process whose environment holds `marker`; return how many were still alive after 10 s.

    A process that replaced its own environment is not found; where there is no /proc none is.
    """
    patience = time.monotonic() + SWEEP_S
    while (living := _marked(marker.encode())) and time.monotonic() < patience:
        for pid in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return len(living)


def _marked(marker: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The environment of a zombie reads as empty, so only the living are found.
            if marker in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
