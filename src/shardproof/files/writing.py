"""Writing files whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shardproof.errors import InvalidValueError


@dataclass(frozen=True)
class Draft:
    """What is to stand at `target`: `chunks` in order, with the permissions of the file `like`."""

    target: Path
    chunks: Iterable[memoryview]
    like: Path


def write_all(drafts: Iterable[Draft]) -> None:
    """Write each draft to a temporary file in its folder, then move all of them into place.

    A killed process leaves each target as it was or whole. When one draft fails, no target is touched.

    Raises:
        InvalidValueError: a target cannot be written.
    """
    staged: dict[Path, Path] = {}
    try:
        for draft in drafts:
            _refuse_folder(draft.target)
            _stage(draft, staged)
        _move(staged)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise InvalidValueError(f"Expected a folder that can be written: {error.strerror or error}{where}.") from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def _stage(draft: Draft, staged: dict[Path, Path]) -> None:
    draft.target.parent.mkdir(parents=True, exist_ok=True)
    # In the target's own folder, since a move is whole only within one file system.
    handle, name = tempfile.mkstemp(prefix=f".{draft.target.name}.", suffix=".tmp", dir=draft.target.parent)
    staged[draft.target] = Path(name)
    with os.fdopen(handle, "wb") as stream:
        for chunk in draft.chunks:
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    shutil.copymode(draft.like, name)


def _move(staged: Mapping[Path, Path]) -> None:
    for target, temporary in staged.items():
        temporary.replace(target)
    for folder in {target.parent for target in staged}:
        # The move itself is durable only once the folder is.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _refuse_folder(target: Path) -> None:
    if target.is_dir():
        raise InvalidValueError(f"Expected a file name to write, got {target}, which is a folder.")
