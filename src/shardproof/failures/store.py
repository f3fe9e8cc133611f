"""A record as text, and the text on disk, whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from pydantic import BaseModel

from shardproof.errors import InvalidValueError


def record_text(record: BaseModel) -> str:
    """Return a record as JSON in ASCII, so that every stream and file can hold it."""
    return json.dumps(record.model_dump(mode="json"), indent=2, allow_nan=False)


def write_record(path: Path, text: str) -> None:
    """Write `text` to a temporary file beside `path`, then move it there; a killed process leaves no half file.

    Raises:
        InvalidValueError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o666 & ~_umask())
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise InvalidValueError(f"Expected a file that can be written, got {path}: {error.strerror}.") from error


def _umask() -> int:
    present = os.umask(0)
    os.umask(present)
    return present
