"""A folder written whole or not at all: made beside its place, looked at, then moved there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from shardproof.errors import InvalidValueError

File = tuple[str, bytes]
"""A path inside the folder, with / between its parts, and the file's bytes."""


def write_folder(
    out: Path, files: Iterable[File], approve: Callable[[Path], None] | None = None, *, private: bool = False
) -> int:
    """Write files into a new folder; `out` appears when all of them are there and approved.

    Args:
        out: where the folder is to be; nothing or an empty folder may be there.
        files: taken one after the other, so that they need no memory together.
        approve: called with the folder before it is moved; what it raises leaves nothing behind.
        private: only this user may read it.

    Returns:
        The number of files.

    Raises:
        InvalidValueError: something is at `out`, or it cannot be written.
    """
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise InvalidValueError(f"Expected a new or empty folder to write to, got {out}, which holds something.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            count = _write(building, files)
            if approve is not None:
                approve(building)
            building.chmod(0o700 if private else 0o755)
            building.replace(out)
            return count
        finally:
            shutil.rmtree(building, ignore_errors=True)
    except OSError as error:
        raise InvalidValueError(f"Expected a folder that can be written, got {out}: {error.strerror}.") from error


def _write(folder: Path, files: Iterable[File]) -> int:
    count = 0
    for name, data in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        count += 1
    return count
