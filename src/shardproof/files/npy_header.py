"""The header of a `.npy` file."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.files.gradient_file import Element, Tensor
from shardproof.sums.kernels import Format

_FLOATS: Final = {2: Format.FLOAT16, 4: Format.FLOAT32, 8: Format.FLOAT64}
_HOST_ORDER: Final = "<" if sys.byteorder == "little" else ">"


def npy_tensors(path: Path, stream: BinaryIO, size: int) -> list[Tensor]:
    """Return the one array of a `.npy` file; nothing is unpickled."""
    shape, fortran_order, dtype = _header(path, stream)
    if any(length < 0 for length in shape):
        raise InvalidValueError(f"Expected lengths >= 0 in the header of {path}, got shape={shape}.")
    return [Tensor("", _element(path, dtype), shape, stream.tell(), fortran_order)]


def _header(path: Path, stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        with warnings.catch_warnings():
            # A header of Python 2 is parsed with a warning about speed.
            warnings.simplefilter("ignore", UserWarning)
            return readers[version](stream)
    except Exception as error:  # a hostile header makes NumPy's parser raise nearly anything
        raise InvalidValueError(
            f"Expected a .npy file of format 1.0 or 2.0, got {path}: {type(error).__name__}: {error}."
        ) from error


def _element(path: Path, dtype: np.dtype[Any]) -> Element:
    parts = 2 if dtype.kind == "c" else 1
    size, swapped = dtype.itemsize // parts, dtype.byteorder not in ("=", "|", _HOST_ORDER)
    if dtype.kind in "fc" and size in _FLOATS:
        return Element(dtype.name, size, _FLOATS[size], parts, swapped=swapped)
    if dtype.kind in "iu":
        return Element(dtype.name, size, None, signed=dtype.kind == "i", swapped=swapped)
    advice = " NumPy writes bfloat16 and float8 as raw bytes: use .safetensors." if dtype.kind == "V" else ""
    raise InvalidTypeError(
        f"Expected float16, float32, float64, complex or integer elements in {path}, got dtype={dtype}.{advice}"
    )
