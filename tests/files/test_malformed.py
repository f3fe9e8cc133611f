"""Files that lie, are cut short or are something else: always a clear refusal, never a number."""

from __future__ import annotations

import io
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from shardproof import InvalidTypeError, InvalidValueError, ShardproofError
from shardproof.files import clip_files, clip_json, open_gradient_file


def npy_bytes(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npy_header(text: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    encoded = text.encode("latin1")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(encoded))
    return b"\x93NUMPY" + bytes(version) + length + encoded + data


def safetensors_bytes(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


GOOD_NPY = npy_bytes(np.array([3.0, 4.0], "f4"))
GOOD_SAFETENSORS = save({"g": np.array([3.0, 4.0], "f4")})


def entry(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


MALFORMED = {
    "empty.npy": b"",
    "text.npy": b"[[1, 2]]",
    "cut_header.npy": GOOD_NPY[:40],
    "cut_data.npy": GOOD_NPY[:-1],
    "trailing.npy": GOOD_NPY + b"\0",
    "two_arrays.npy": GOOD_NPY + GOOD_NPY,
    "future.npy": npy_header("{}", version=(9, 0)),
    "no_dict.npy": npy_header("[1]"),
    "missing_key.npy": npy_header("{'descr': '<f4'}"),
    "negative.npy": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
    "negative_pair.npy": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -2)}", bytes(8)),
    "huge.npy": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2**62, 16)}"),
    "huge_literal.npy": npy_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**62}, 16)}}"),
    "deep.npy": npy_header("(" * 9000, version=(2, 0)),
    "long_header.npy": npy_header("{" + " " * 20_000 + "}", version=(2, 0)),
    "call.npy": npy_header("__import__('os').mkdir('exploded')"),
    "bad_descr.npy": npy_header("{'descr': 'no such', 'fortran_order': False, 'shape': ()}"),
    "empty.safetensors": b"",
    "short.safetensors": b"\x01\0\0",
    "text.safetensors": b"[[1, 2], [3, 4]]",
    "cut_header.safetensors": GOOD_SAFETENSORS[:30],
    "cut_data.safetensors": GOOD_SAFETENSORS[:-1],
    "trailing.safetensors": GOOD_SAFETENSORS + b"\0",
    "huge_header.safetensors": struct.pack("<Q", 2**60) + b"{}",
    "no_json.safetensors": safetensors_bytes(b"{'a': 1}"),
    "list.safetensors": safetensors_bytes([1]),
    "deep.safetensors": safetensors_bytes(b'{"a":' * 5000),
    "lying_shape.safetensors": safetensors_bytes({"a": entry("F32", [3], 0, 8)}, bytes(8)),
    "lying_offsets.safetensors": safetensors_bytes({"a": entry("F32", [2], 0, 80)}, bytes(8)),
    "backwards.safetensors": safetensors_bytes({"a": entry("F32", [2], 8, 0)}, bytes(8)),
    "negative.safetensors": safetensors_bytes({"a": entry("F32", [-2], 0, 8)}, bytes(8)),
    "overlap.safetensors": safetensors_bytes({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 0, 8)}, bytes(8)),
    "gap.safetensors": safetensors_bytes({"a": entry("F32", [1], 4, 8)}, bytes(8)),
    "unknown_dtype.safetensors": safetensors_bytes({"a": entry("F99", [2], 0, 8)}, bytes(8)),
    "surrogate.safetensors": safetensors_bytes(
        b'{"\\ud800":' + json.dumps(entry("F32", [2], 0, 8)).encode() + b"}", bytes(8)
    ),
    "name.pt": b"PK\x03\x04",
    "no_suffix": GOOD_NPY,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(MALFORMED[name])
    with pytest.raises(InvalidValueError, match=name.replace(".", r"\.")):
        open_gradient_file(path)
    with pytest.raises(InvalidValueError):
        clip_files([path], 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_templates_of_the_malformed_files_are_good(tmp_path: Path) -> None:
    (tmp_path / "g.npy").write_bytes(GOOD_NPY)
    (tmp_path / "g.safetensors").write_bytes(GOOD_SAFETENSORS)
    (tmp_path / "none.safetensors").write_bytes(safetensors_bytes({}))
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
    (tmp_path / "two.npy").write_bytes(npy_header(header, np.array([3, 4], "<f4").tobytes(), (2, 0)))
    for name in ("g.npy", "g.safetensors", "two.npy"):
        assert clip_files([tmp_path / name], None).norm == 5.0
    assert clip_files([tmp_path / "none.safetensors"], None).norm == 0.0


@pytest.mark.parametrize("dtype", ["BOOL", "F8_E8M0"])
def test_dtypes_that_hold_no_gradients_are_refused(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "g.safetensors"
    path.write_bytes(safetensors_bytes({"flags": entry(dtype, [2], 0, 2)}, bytes(2)))
    with pytest.raises(InvalidTypeError, match="tensor 'flags'"):
        open_gradient_file(path)


def test_a_repeated_name_counts_no_byte_twice(tmp_path: Path) -> None:
    one = json.dumps(entry("F32", [2], 0, 8))
    path = tmp_path / "g.safetensors"
    path.write_bytes(safetensors_bytes(f'{{"a": {one}, "a": {one}}}'.encode(), np.array([3, 4], "<f4").tobytes()))
    try:
        norm = clip_files([path], None).norm
    except InvalidValueError:
        return  # refused by the library, in releases that look
    assert norm == 5.0


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"folder{suffix}").mkdir()
    os.mkfifo(tmp_path / f"pipe{suffix}")
    for name in ("folder", "pipe", "absent"):
        with pytest.raises(InvalidValueError, match=name):
            open_gradient_file(tmp_path / f"{name}{suffix}")


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_damaged_file_is_refused_or_read_whole(tmp_path_factory: pytest.TempPathFactory, data) -> None:
    """Any byte of the header changed, or the file cut or grown: a refusal, or a file whose sizes still agree."""
    name, good = data.draw(st.sampled_from([("g.npy", GOOD_NPY), ("g.safetensors", GOOD_SAFETENSORS)]))
    place = data.draw(st.integers(0, len(good) - 9))
    damaged = good[:place] + bytes([data.draw(st.integers(0, 255))]) + good[place + 1 :]
    damaged = damaged[: data.draw(st.integers(0, len(good)))] if data.draw(st.booleans()) else damaged
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(damaged)
    try:
        file = open_gradient_file(path)
    except ShardproofError:
        return
    assert sum(tensor.numbers * tensor.element.size for tensor in file.tensors) <= len(damaged)
    assert file.tensors[-1].end == len(damaged) if file.tensors else True


@pytest.mark.parametrize(
    ("text", "kind", "match"),
    [
        (b"", InvalidValueError, "Expected JSON"),
        (b"[[1]", InvalidValueError, "Expected JSON"),
        (b"\xff\xfe", InvalidValueError, "Expected JSON"),
        (b"\x93NUMPY", InvalidValueError, r"\.npy or \.safetensors"),
        (b"[[NaN]]", InvalidValueError, "NaN is no JSON number"),
        (b"[[1], [-Infinity]]", InvalidValueError, "-Infinity is no JSON number"),
        (b"[" * 100_000, InvalidValueError, "nested too deep"),
        (b"[" * 100_000 + b"]" * 100_000, InvalidValueError, "nested too deep"),
        (b"[[" + b"9" * 401 + b"]]", InvalidValueError, "shard 0, index 0"),
        (b"[[" + b"9" * 5000 + b"]]", InvalidValueError, "Expected JSON"),
        (b"[[1e400]]", InvalidValueError, "shard 0, index 0"),
        (b"{}", InvalidTypeError, "an object"),
        (b'"[[1]]"', InvalidTypeError, "a string"),
        (b"true", InvalidTypeError, "a boolean"),
        (b"null", InvalidTypeError, "null"),
        (b"3", InvalidTypeError, "a number"),
        (b"[3]", InvalidTypeError, "shard 0"),
        (b"[[1], {}]", InvalidTypeError, "shard 1"),
        (b'[["1"]]', InvalidTypeError, "shard 0, index 0"),
        (b"[[1, true]]", InvalidTypeError, "shard 0, index 1"),
        (b"[[null]]", InvalidTypeError, "shard 0, index 0"),
        (b"[[[1]]]", InvalidTypeError, "shard 0, index 0"),
    ],
    ids=lambda argument: argument[:12].decode("ascii", "replace") if isinstance(argument, bytes) else "",
)
def test_refused_json(text: bytes, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match) as caught:
        clip_json(text, 1)
    assert len(str(caught.value)) < 400


def test_json_that_is_read() -> None:
    assert clip_json(b"\xef\xbb\xbf [[3], [], [4]] ", 100).shards == [[3], [], [4]]
    assert clip_json(b"[]", 0).shards == []
    found = clip_json(b"[[3, 0], [0, 4]]", None)
    assert (found.norm, found.factor, found.shards) == (5.0, 1.0, [[3, 0], [0, 4]])
