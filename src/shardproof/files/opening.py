"""Opening a gradient file: the header is read and checked against the file's size, the data is not touched."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from shardproof.errors import InvalidValueError
from shardproof.files.gradient_file import GradientFile, Identity, Tensor
from shardproof.files.npy_header import npy_tensors
from shardproof.files.safetensors_header import safetensors_tensors

_READERS: Final = {".npy": npy_tensors, ".safetensors": safetensors_tensors}
SUFFIXES: Final = tuple(_READERS)


def open_gradient_file(path: Path) -> GradientFile:
    """Return what a gradient file holds; reads the header only.

    Args:
        path: a regular file that ends in `.npy` or `.safetensors`.

    Raises:
        InvalidValueError: not a readable regular file, another suffix, a malformed or lying header, a size
            that does not match it, or elements that are no real or complex numbers.
    """
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise InvalidValueError(f"Expected a file that ends in {' or '.join(SUFFIXES)}, got {path}.")
    try:
        # Asked before opening: opening a named pipe would wait for a writer.
        identity = identity_of(path, path.stat())
        with path.open("rb") as stream:
            tensors = reader(path, stream, identity.size)
    except OSError as error:
        raise InvalidValueError(f"Expected a readable file, got {path}: {error.strerror or error}.") from error
    return GradientFile(path, _in_file_order(path, tensors, identity.size), identity)


def identity_of(path: Path, status: os.stat_result) -> Identity:
    """Return which file `status` describes; refuses what is no regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise InvalidValueError(f"Expected a regular file, got {path}. Its size must be known before it is read.")
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _in_file_order(path: Path, tensors: list[Tensor], size: int) -> tuple[Tensor, ...]:
    """Sort by offset; every byte of data must belong to exactly one tensor, or a sum would not be the file's."""
    ordered = sorted(tensors, key=lambda tensor: (tensor.offset, tensor.end))
    ends = [tensor.end for tensor in ordered]
    starts = [tensor.offset for tensor in ordered[1:]] + [size]
    if ordered and ends != starts:
        raise InvalidValueError(
            f"Expected {path} to hold exactly the data that its header names (up to byte {ends[-1]}), got {size} "
            "bytes. The file is truncated, overlaps itself or holds more than one array."
        )
    return tuple(ordered)
