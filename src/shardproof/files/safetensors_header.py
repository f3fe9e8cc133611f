"""The header of a `.safetensors` file, validated by the safetensors library."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from safetensors import SafetensorError, safe_open

from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.files.gradient_file import Element, Tensor
from shardproof.sums.kernels import Format

_SWAPPED: Final = sys.byteorder == "big"
_FORMATS: Final = {
    "F64": Format.FLOAT64,
    "F32": Format.FLOAT32,
    "F16": Format.FLOAT16,
    "BF16": Format.BFLOAT16,
    "F8_E4M3": Format.FLOAT8_E4M3FN,
    "F8_E5M2": Format.FLOAT8_E5M2,
    "F8_E4M3FNUZ": Format.FLOAT8_E4M3FNUZ,
    "F8_E5M2FNUZ": Format.FLOAT8_E5M2FNUZ,
}
_ELEMENTS: Final = {
    **{name: Element(name, format.bits.size, format, swapped=_SWAPPED) for name, format in _FORMATS.items()},
    "C64": Element("C64", 4, Format.FLOAT32, parts=2, swapped=_SWAPPED),
    **{
        f"{sign}{8 * size}": Element(f"{sign}{8 * size}", size, None, signed=sign == "I", swapped=_SWAPPED)
        for sign in "IU"
        for size in (1, 2, 4, 8)
    },
}


def safetensors_tensors(path: Path, stream: BinaryIO, size: int) -> list[Tensor]:
    """Return the tensors of a `.safetensors` file."""
    if size == 0:
        raise InvalidValueError(f"Expected a .safetensors file, got {path}, which is empty.")
    try:
        # The library checks the header against the file (sizes, overlaps, gaps), so that what follows can trust it.
        with safe_open(path, framework="np"):
            pass
    except SafetensorError as error:
        raise InvalidValueError(f"Expected a .safetensors file, got {path}: {error}.") from error
    length = int.from_bytes(stream.read(8), "little")
    header: dict[str, Any] = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    return [_tensor(path, name, entry, 8 + length) for name, entry in header.items()]


def _tensor(path: Path, name: str, entry: dict[str, Any], data: int) -> Tensor:
    element = _ELEMENTS.get(entry["dtype"])
    if element is None:
        raise InvalidTypeError(
            f"Expected floating-point, complex or integer elements in {path}, tensor {name!r}, got "
            f"dtype={entry['dtype']}. Leave such tensors out of the file: they are no gradients."
        )
    return Tensor(name, element, tuple(entry["shape"]), data + entry["data_offsets"][0])
