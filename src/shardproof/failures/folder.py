"""A folder of files on disk, whole or not at all: the folder that it replaces stays until the new one is complete."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from shardproof.errors import InvalidValueError


def replace_folder(out: Path, files: Iterable[tuple[str, bytes]], marker: str) -> int:
    """Write `files` to a temporary folder beside `out`, then move it there in place of what an earlier call wrote.

    Args:
        out: the folder; it is made, with its parents, where it is missing.
        files: (path with / between folders, content).
        marker: a file that earlier calls left in `out`. A folder that has it is replaced; another one has to be empty.

    Returns:
        How many files were written.

    Raises:
        InvalidValueError: `out` holds something else, or cannot be written; nothing has changed.
    """
    _replaceable(out, marker)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = _beside(out)
        try:
            written = sum(_write(temporary / path, content) for path, content in files)
            _swap(temporary, out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise InvalidValueError(f"Expected a folder that can be written, got {out}: {error.strerror}.") from error
    return written


def _replaceable(out: Path, marker: str) -> None:
    try:
        foreign = out.exists() and not (out / marker).is_file() and (not out.is_dir() or any(out.iterdir()))
    except OSError as error:
        raise InvalidValueError(f"Expected a folder that can be read, got {out}: {error.strerror}.") from error
    if foreign or out.is_symlink():
        raise InvalidValueError(
            f"Expected a new or empty folder, or one that this command wrote before, got {out}, which has no {marker}. "
            "Name another folder, or empty it."
        )


def _write(path: Path, content: bytes) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return 1


def _swap(new: Path, out: Path) -> None:
    if not out.exists():
        new.replace(out)
        return
    # A rename replaces an empty folder only, so the old one is moved away first, onto one that is empty.
    old = _beside(out)
    out.replace(old)
    new.replace(out)
    shutil.rmtree(old)


def _beside(out: Path) -> Path:
    made = out.with_name(f".{out.name}.{secrets.token_hex(8)}")
    made.mkdir()
    return made
