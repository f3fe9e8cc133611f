"""A folder of files that stands in for the one that an earlier call wrote: the old one stays until all are there."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.failures.folders import File, write_folder


def replace_folder(out: Path, files: Iterable[File], marker: str, *, private: bool = False) -> int:
    """Write `files` beside `out`, then move them there in place of what an earlier call wrote.

    Args:
        out: the folder; it is made, with its parents, where it is missing.
        files: taken one after the other.
        marker: a file that earlier calls left in `out`. A folder that has it is replaced; another one has to be empty.
        private: only this user may read it.

    Returns:
        The number of files.

    Raises:
        InvalidValueError: `out` holds something else, or cannot be written; what was there is as it was.
    """
    if out.is_symlink() or not (out / marker).is_file():
        _empty(out, marker)
        return write_folder(out, files, private=private)
    new, old = _beside(out), _beside(out)
    written = write_folder(new, files, private=private)
    try:
        out.replace(old)
        new.replace(out)
    except OSError as error:
        raise InvalidValueError(
            f"Expected a folder that can be replaced, got {out}: {error.strerror}. The new one is {new}."
        ) from error
    shutil.rmtree(old, ignore_errors=True)
    return written


def _empty(out: Path, marker: str) -> None:
    try:
        foreign = out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir())))
    except OSError as error:
        raise InvalidValueError(f"Expected a folder that can be read, got {out}: {error.strerror}.") from error
    if foreign:
        raise InvalidValueError(
            f"Expected a new or empty folder, or one that this command wrote before, got {out}, which has no {marker}. "
            "Name another folder, or empty it."
        )


def _beside(out: Path) -> Path:
    return out.with_name(f".{out.name}.{secrets.token_hex(8)}")
