"""Where shrunk failures lie: one file for each cell, in the run's folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from shardproof.audit.store import StoredRunError, write_whole
from shardproof.records.shrunk import Shrunk

SHRUNK: Final = "shrunk"


def path_of(folder: Path, cell: str) -> Path:
    """Where the shrunk failure of a cell lies.

    >>> path_of(Path("run"), "clips.py:clip/fsdp2").as_posix()
    'run/shrunk/clips.py.clip.fsdp2.json'
    """
    return folder / SHRUNK / f"{re.sub('[^A-Za-z0-9._-]+', '.', cell).strip('.')}.json"


def write(folder: Path, shrunk: Shrunk) -> Path:
    """Write it, whole; return where."""
    path = path_of(folder, shrunk.cell)
    path.parent.mkdir(exist_ok=True)
    write_whole(path, shrunk.model_dump_json(indent=1).encode() + b"\n")
    return path


def read(folder: Path, cell: str, plan_sha256: str) -> Shrunk | None:
    """What was stored of a cell; None where it was not shrunk. Raises StoredRunError where it does not fit the plan."""
    path = path_of(folder, cell)
    if not path.is_file():
        return None
    try:
        shrunk = Shrunk.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise StoredRunError(f"Expected {path} to hold a shrunk failure of this version: {error}.") from error
    if (shrunk.cell, shrunk.plan_sha256) != (cell, plan_sha256):
        raise StoredRunError(f"Expected a shrunk failure of {cell} in this run, got another one's in {path}.")
    return shrunk
