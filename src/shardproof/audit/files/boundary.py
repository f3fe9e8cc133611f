"""Opening what code that is not trusted has written: regular files only, no links, no more bytes than allowed."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path


class DamagedError(Exception):
    """What was written cannot be used; the text says where and why."""


def contents(root: Path, parts: Sequence[str], most: int) -> bytes | None:
    """The bytes of the file root/parts...; None where there is none.

    No part below root may be a link, the file must be a regular one (a FIFO or a device is not read) of at most
    `most` bytes. Raises DamagedError.
    """
    with _folder(root, parts[:-1]) as folder:
        file = None if folder is None else _opened(parts[-1], os.O_RDONLY | os.O_NONBLOCK, folder, parts)
        if file is None:
            return None
        try:
            return _read(file, most, "/".join(parts))
        finally:
            os.close(file)


def names(root: Path, parts: Sequence[str], most: int) -> list[str] | None:
    """What lies in the folder root/parts..., sorted, `most` names and one more at most; None where it is missing."""
    with _folder(root, parts) as folder:
        if folder is None:
            return None
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in itertools.islice(entries, most + 1))


def shown(listed: Sequence[str]) -> str:
    """A few names as plain ASCII, for names are foreign text too."""
    return ", ".join(ascii(name)[:80] for name in listed[:3]) + (", ..." if len(listed) > 3 else "")


@contextlib.contextmanager
def _folder(root: Path, parts: Sequence[str]) -> Iterator[int | None]:
    folder: int | None = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for depth, part in enumerate(parts, start=1):
            assert folder is not None
            below = _opened(part, os.O_RDONLY | os.O_DIRECTORY, folder, parts[:depth])
            os.close(folder)
            folder = below
            if folder is None:
                break
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


def _opened(name: str, flags: int, folder: int, parts: Sequence[str]) -> int | None:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        what = "a folder" if flags & os.O_DIRECTORY else "a file"
        reason = f"{'/'.join(parts)} cannot be opened as {what} without following links: {error.strerror}"
        raise DamagedError(reason) from error


def _read(file: int, most: int, where: str) -> bytes:
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        raise DamagedError(f"{where} is no regular file")
    # The size may grow while it is read: what is read is bounded, not only what is announced.
    with os.fdopen(os.dup(file), "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise DamagedError(f"{where} is larger than the {most} bytes that a result can have")
    return data
