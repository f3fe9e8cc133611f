"""The safetensors format, written and read strictly: no pickle, no allocation that a header asks for."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shardproof.audit.files.boundary import DamagedError
from shardproof.sums.kernels import Format
from shardproof.sums.kernels.python_kernel import decoded, encoded

_LENGTH: Final = struct.Struct("<Q")
_CODES: Final = {"F64": Format.FLOAT64, "F32": Format.FLOAT32, "F16": Format.FLOAT16, "BF16": Format.BFLOAT16}
_BYTES: Final = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_NAMES: Final = {format.value: code for code, format in _CODES.items()}


@dataclass(frozen=True)
class Stored:
    """One tensor of a file; dtype is torch's name of it, or the file's where torch's is not known here."""

    dtype: str
    shape: tuple[int, ...]
    values: tuple[float, ...]


def written(tensors: Mapping[str, Stored]) -> bytes:
    """The bytes of a safetensors file with these tensors, in this order.

    >>> read(written({"w": Stored("float32", (2,), (1.5, -2.0))}))["w"].values
    (1.5, -2.0)
    """
    header: dict[str, Any] = {}
    data = b""
    for name, tensor in tensors.items():
        code = _NAMES[tensor.dtype]
        part = _packed(code, tensor.values)
        header[name] = {"dtype": code, "shape": tensor.shape, "data_offsets": (len(data), len(data) + len(part))}
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text + data


def read(data: bytes) -> dict[str, Stored]:
    """The tensors of a safetensors file; raises DamagedError for whatever the format does not allow.

    The data must be covered by the tensors without gap or overlap. Tensors of dtypes that no gradient has keep their
    dtype and shape, and have no values.
    """
    if len(data) < _LENGTH.size:
        raise DamagedError(f"it has {len(data)} bytes, too few for a safetensors file")
    (length,) = _LENGTH.unpack_from(data)
    if length > len(data) - _LENGTH.size:
        raise DamagedError(f"its header claims {length} bytes of a file of {len(data)}: cut off, or forged")
    header = parsed(data[_LENGTH.size : _LENGTH.size + length])
    header.pop("__metadata__", None)
    body = data[_LENGTH.size + length :]
    spans = {name: _span(name, entry, len(body)) for name, entry in header.items()}
    end = 0
    for start, stop in sorted(spans.values()):
        if start != end:
            raise DamagedError(f"its data has a gap or an overlap at byte {min(start, end)}")
        end = stop
    if end != len(body):
        raise DamagedError(f"it has {len(body)} bytes of data, its tensors name {end}")
    return {name: _stored(name, entry, body[slice(*spans[name])]) for name, entry in header.items()}


def parsed(text: bytes) -> dict[str, Any]:
    """A JSON object whose names are told once; raises DamagedError. NaN and Infinity are read as numbers."""
    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it holds no JSON object: {type(error).__name__}") from error
    if not isinstance(found, dict):
        raise DamagedError(f"it holds {type(found).__name__}, not a JSON object")
    return found


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is told twice")
    return found


def _span(name: str, entry: Any, most: int) -> tuple[int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise DamagedError(f"its header says of {ascii(name)[:80]} something else than dtype, shape and data_offsets")
    offsets = entry["data_offsets"]
    if not _counts(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= most:
        raise DamagedError(f"the data_offsets of {ascii(name)[:80]} do not lie in the file")
    if not isinstance(entry["dtype"], str) or not _counts(entry["shape"]):
        raise DamagedError(f"dtype or shape of {ascii(name)[:80]} is none")
    return offsets[0], offsets[1]


def _counts(found: Any) -> bool:
    return isinstance(found, list) and len(found) <= 64 and all(type(each) is int and each >= 0 for each in found)


def _stored(name: str, entry: Mapping[str, Any], part: bytes) -> Stored:
    code, shape = entry["dtype"], tuple(entry["shape"])
    if code not in _CODES:
        return Stored(ascii(code)[:20], shape, ())
    if math.prod(shape) * _BYTES[code] != len(part):
        raise DamagedError(f"{ascii(name)[:80]} has {len(part)} bytes, not those of its dtype and shape")
    return Stored(_CODES[code].value, shape, _unpacked(code, part))


def _packed(code: str, values: Iterable[float]) -> bytes:
    return b"".join(encoded(_CODES[code], value).to_bytes(_BYTES[code], "little") for value in values)


def _unpacked(code: str, part: bytes) -> tuple[float, ...]:
    size, format = _BYTES[code], _CODES[code]
    starts = range(0, len(part), size)
    return tuple(decoded(format, int.from_bytes(part[start : start + size], "little")) for start in starts)
