"""Norm, factor and scaled copies of gradient files, judged by fractions and by torch's own rounding."""

from __future__ import annotations

import json
import math
import os
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from shardproof import InvalidTypeError, InvalidValueError, clip_factor, global_norm
from shardproof.files import clip_files, open_gradient_file, reading

FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def write_safetensors(path: Path, tensors: list[tuple[str, str, list[int], bytes]], metadata=None) -> Path:
    """A `.safetensors` file from raw bytes, for dtypes that NumPy has not; tensors in the given order."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, dtype, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def bf16(values: list[float]) -> bytes:
    """Patterns of values that bfloat16 holds exactly."""
    words = np.array(values, "<f4").view("<u4")
    assert not (words & 0xFFFF).any()
    return (words >> 16).astype("<u2").tobytes()


def test_ranks_of_every_format_give_one_exact_norm(tmp_path: Path) -> None:
    """3, 4, 12, 84 and 132 in five formats and two containers: norms 5, 13, 85, 157.0286..."""
    np.save(tmp_path / "rank0.npy", np.array([3.0], "<f4"))
    np.save(tmp_path / "rank1.npy", np.array([[4.0], [0.0]], ">f8"))
    write_safetensors(
        tmp_path / "rank2.safetensors",
        [("a", "BF16", [1], bf16([12.0])), ("b", "F16", [1], np.array([84.0], "<f2").tobytes())],
    )
    write_safetensors(tmp_path / "rank3.safetensors", [("a", "F8_E5M2", [2], bytes([0x3C, 0xBC]))])  # 1, -1
    paths = [tmp_path / f"rank{rank}{suffix}" for rank, suffix in enumerate([".npy"] * 2 + [".safetensors"] * 2)]
    assert clip_files(paths[:1], None).norm == 3.0
    assert clip_files(paths[:2], None).norm == 5.0
    assert clip_files(paths[:3], 1).norm == 85.0
    assert clip_files(paths[:3], 1).factor == 1 / 85
    assert clip_files(paths, None).norm == math.sqrt(85**2 + 2)


@pytest.mark.parametrize(
    ("dtype", "patterns", "values"),
    [
        ("BF16", [0x4040, 0x0001], [3.0, 2.0**-133]),
        ("F16", [0x4200, 0x0001], [3.0, 2.0**-24]),
        ("F8_E4M3", [0x44, 0x01, 0x7E], [3.0, 2.0**-9, 448.0]),
        ("F8_E5M2", [0x42, 0x01, 0x7B], [3.0, 2.0**-16, 57344.0]),
        ("F8_E4M3FNUZ", [0x4C, 0x7F], [3.0, 240.0]),
        ("F8_E5M2FNUZ", [0x46, 0x7F], [3.0, 57344.0]),
    ],
)
def test_small_formats_are_decoded(tmp_path: Path, dtype: str, patterns: list[int], values: list[float]) -> None:
    size = 2 if "16" in dtype else 1
    raw = b"".join(pattern.to_bytes(size, "little") for pattern in patterns)
    path = write_safetensors(tmp_path / "g.safetensors", [("g", dtype, [len(patterns)], raw)])
    assert clip_files([path], None).norm == global_norm([values])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30), min_size=1, max_size=4))
def test_files_agree_with_the_rule(tmp_path_factory: pytest.TempPathFactory, shards: list[list[float]]) -> None:
    folder = tmp_path_factory.mktemp("ranks")
    for rank, shard in enumerate(shards):
        np.save(folder / f"{rank}.npy", np.array(shard, "f8"))
    found = clip_files([folder / f"{rank}.npy" for rank in range(len(shards))], 1.5)
    assert found.norm.hex() == global_norm(shards).hex()
    if found.norm < math.inf:
        assert found.factor.hex() == clip_factor(found.norm, 1.5).hex()


@pytest.mark.parametrize("order", ["C", "F"])
def test_every_shape_and_order(tmp_path: Path, order: str) -> None:
    values = np.arange(24, dtype="f4").reshape(2, 3, 4)
    np.save(tmp_path / "g.npy", np.asarray(values, order=order))
    np.save(tmp_path / "zero_dim.npy", np.float32(2))
    np.save(tmp_path / "empty.npy", np.empty((0, 3), "f4"))
    found = clip_files([tmp_path / "g.npy", tmp_path / "zero_dim.npy", tmp_path / "empty.npy"], 1, tmp_path / "o")
    assert found.norm == global_norm([list(range(24)), [2]])
    scaled = np.load(tmp_path / "o" / "g.npy")
    np.testing.assert_array_equal(scaled, (values.astype("f8") * found.factor).astype("f4"))
    assert np.isfortran(scaled) == (order == "F")
    assert np.load(tmp_path / "o" / "empty.npy").shape == (0, 3)
    assert [file.elements for file in found.files] == [24, 1, 0]


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16"])
def test_scaled_arrays_keep_dtype_and_byte_order(tmp_path: Path, dtype: str) -> None:
    values = np.array([3, -4, 0.1, 1e-7], dtype) * (1j if "c" in dtype else 1)
    values = values.astype(dtype)
    np.save(tmp_path / "g.npy", values)
    found = clip_files([tmp_path / "g.npy"], 1, tmp_path / "out")
    scaled = np.load(tmp_path / "out" / "g.npy")
    assert scaled.dtype == np.dtype(dtype)
    assert scaled.dtype.byteorder == values.dtype.byteorder
    wide = values.astype("c16" if "c" in dtype else "f8") * found.factor
    np.testing.assert_array_equal(scaled, wide.astype(dtype))


def test_a_complex_array_counts_both_parts(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.array([3 + 4j], "c8"))
    found = clip_files([tmp_path / "g.npy"], 1)
    assert (found.norm, found.files[0].elements) == (5.0, 1)


def test_a_scaled_file_keeps_names_order_shapes_dtypes_and_metadata(tmp_path: Path) -> None:
    tensors = [
        ("z.weight", "BF16", [2, 1], bf16([3.0, -4.0])),
        ("none", "F32", [0], b""),
        ("a.weight", "F32", [1, 1], np.array([12.0], "<f4").tobytes()),
        ("scalar", "F64", [], np.array(84.0, "<f8").tobytes()),
    ]
    path = write_safetensors(tmp_path / "rank0.safetensors", tensors, {"step": "7"})
    found = clip_files([path], 42.5, tmp_path / "out")
    assert (found.norm, found.factor) == (85.0, 0.5)
    written = tmp_path / "out" / "rank0.safetensors"
    assert found.files[0].written == written
    halved = [
        ("z.weight", "BF16", [2, 1], bf16([1.5, -2.0])),
        ("none", "F32", [0], b""),
        ("a.weight", "F32", [1, 1], np.array([6.0], "<f4").tobytes()),
        ("scalar", "F64", [], np.array(42.0, "<f8").tobytes()),
    ]
    expected = write_safetensors(tmp_path / "expected.safetensors", halved, {"step": "7"})
    assert written.read_bytes() == expected.read_bytes()
    with safe_open(written, "np") as handle:
        assert handle.metadata() == {"step": "7"}


def nearest(value: Fraction, patterns: list[tuple[Fraction, int]]) -> int:
    """The pattern nearest to `value`, the even one of two equally near."""
    return min(patterns, key=lambda entry: (abs(entry[0] - value), entry[1] & 1))[1]


@pytest.mark.parametrize("bits", ["BF16", "F16"])
def test_elements_are_rounded_once(tmp_path: Path, bits: str) -> None:
    """All positive finite patterns x a factor whose products lie near ties; through float32 some would differ."""
    words = np.arange(1, 0x7F80 if bits == "BF16" else 0x7C00, dtype="<u2")
    path = write_safetensors(tmp_path / "g.safetensors", [("g", bits, [words.size], words.tobytes())])
    decoded = (words.astype("<u4") << 16).view("<f4").astype("f8") if bits == "BF16" else words.view("<f2").astype("f8")
    norm = clip_files([path], None).norm
    limit = norm * (0.5 + 2.0**-12 + 2.0**-40)
    found = clip_files([path], limit, tmp_path / "out")
    raw = (tmp_path / "out" / "g.safetensors").read_bytes()[-words.nbytes :]
    scaled = np.frombuffer(raw, "<u2")
    products = decoded * found.factor
    table = [(Fraction(value), int(word)) for value, word in zip(decoded.tolist(), words.tolist(), strict=True)]
    table.insert(0, (Fraction(0), 0))
    for place in [*range(300), *range(300, words.size, 97), words.size - 1]:
        got = int(scaled[place])
        around = table[max(got - 1, 0) : got + 2]
        assert nearest(Fraction(float(products[place])), around) == got


def test_double_rounding_through_float32_is_not_what_happens(tmp_path: Path) -> None:
    """A product just above a bf16 tie that float32 would move onto the tie, and so to the even neighbour."""
    factor = 0.5 + 2.0**-9 + 2.0**-40
    path = write_safetensors(tmp_path / "g.safetensors", [("g", "BF16", [1], bf16([1.0]))])
    found = clip_files([path], factor, tmp_path / "out")
    assert found.factor == factor
    (word,) = np.frombuffer((tmp_path / "out" / "g.safetensors").read_bytes()[-2:], "<u2")
    once = 0x3F00 + 1  # 0.5 + 2**-8
    twice = 0x3F00  # 0.5, by way of float32(factor) == 0.5 + 2**-9, a tie
    assert np.float32(factor) == np.float32(0.5 + 2.0**-9)
    assert (word, word != twice) == (once, True)


def test_under_the_limit_files_are_copied_byte_for_byte(tmp_path: Path) -> None:
    np.save(tmp_path / "ints.npy", np.array([3, 4], "i8"))
    path = write_safetensors(tmp_path / "g.safetensors", [("g", "F8_E4M3", [3], bytes([0x80, 0x01, 0x44]))])
    found = clip_files([tmp_path / "ints.npy", path], 100, tmp_path / "out")
    assert found.factor == 1.0
    for file in found.files:
        assert file.written is not None
        assert file.written.read_bytes() == file.path.read_bytes()


def test_zero_limit_keeps_signs_and_zero_norm_keeps_factor_one(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.array([3.0, -4.0], "f4"))
    np.save(tmp_path / "zero.npy", np.array([0.0, -0.0], "f4"))
    assert clip_files([tmp_path / "g.npy"], 0, tmp_path / "o").factor == 0.0
    assert np.load(tmp_path / "o" / "g.npy").tobytes() == np.array([0.0, -0.0], "f4").tobytes()
    assert clip_files([tmp_path / "zero.npy"], 0, tmp_path / "o").factor == 1.0


def test_a_norm_of_inf_still_gives_the_exact_factor(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.array([1.7e308] * 4))
    found = clip_files([tmp_path / "g.npy"], 1.7e308, tmp_path / "out")
    assert (found.norm, found.factor) == (math.inf, 0.5)
    assert np.load(tmp_path / "out" / "g.npy").tolist() == [0.85e308] * 4


@pytest.mark.parametrize("dtype", ["i1", "i2", "<i4", ">i8", "u1", "u8"])
def test_integers_have_an_exact_norm_and_are_not_scaled(tmp_path: Path, dtype: str) -> None:
    top = np.iinfo(dtype).max
    np.save(tmp_path / "g.npy", np.array([top, top, np.iinfo(dtype).min], dtype))
    found = clip_files([tmp_path / "g.npy"], None)
    assert found.norm == global_norm([[int(top), int(top), int(np.iinfo(dtype).min)]])
    with pytest.raises(InvalidTypeError, match=r"g\.npy, the array, index 0"):
        clip_files([tmp_path / "g.npy"], 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_large_file_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BLOCK", 64)
    values = np.arange(1, 1001, dtype="f4")
    save_file({"a": values[:7], "b": values[7:8], "c": values[8:]}, tmp_path / "g.safetensors")
    whole = clip_files([tmp_path / "g.safetensors"], 1.0, tmp_path / "small_blocks")
    assert whole.norm == global_norm([values.tolist()])
    monkeypatch.undo()
    clip_files([tmp_path / "g.safetensors"], 1.0, tmp_path / "one_block")
    small, one = (tmp_path / name / "g.safetensors" for name in ("small_blocks", "one_block"))
    assert small.read_bytes() == one.read_bytes()


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f8"])
def test_a_value_that_is_not_finite_is_named_in_npy(tmp_path: Path, special: float, dtype: str) -> None:
    values = np.ones((3, 5), dtype)
    values[1, 2] = special
    for order in "CF":
        np.save(tmp_path / "rank1.npy", np.asarray(values, order=order))
        with pytest.raises(InvalidValueError, match=r"rank1\.npy, the array, index \(1, 2\)") as caught:
            clip_files([tmp_path / "rank1.npy"], 1, tmp_path / "out")
        assert ("NaN" if math.isnan(special) else "infinite") in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("dtype", "pattern"),
    [("BF16", 0x7F80), ("BF16", 0xFFC0), ("F8_E4M3", 0xFF), ("F8_E5M2", 0x7C), ("F8_E4M3FNUZ", 0x80)],
)
def test_a_value_that_is_not_finite_is_named_in_safetensors(tmp_path: Path, dtype: str, pattern: int) -> None:
    size = 2 if dtype == "BF16" else 1
    good, bad = (1).to_bytes(size, "little"), pattern.to_bytes(size, "little")
    tensors = [("first", dtype, [4], good * 4), ("empty", dtype, [0], b""), ("second", dtype, [3], good * 2 + bad)]
    path = write_safetensors(tmp_path / "g.safetensors", tensors)
    with pytest.raises(InvalidValueError, match=r"g\.safetensors, tensor 'second', index 2"):
        clip_files([path], None)


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.array([True]), "dtype=bool"),
        (np.array(["x"]), "dtype=<U1"),
        (np.zeros(2, "V2"), "NumPy writes bfloat16"),
        (np.zeros(2, [("a", "f4")]), "dtype"),
        (np.array(["2020-01-01"], "M8[D]"), "dtype"),
    ],
)
def test_elements_that_are_no_numbers_are_refused(tmp_path: Path, array: np.ndarray, match: str) -> None:
    np.save(tmp_path / "g.npy", array)
    with pytest.raises(InvalidTypeError, match=match):
        open_gradient_file(tmp_path / "g.npy")


def test_a_pickled_array_is_never_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    np.save(tmp_path / "g.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidTypeError, match="dtype=object"):
        open_gradient_file(tmp_path / "g.npy")
    assert not (tmp_path / "exploded").exists()


def test_the_same_file_twice_is_refused_also_by_a_link(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones(2))
    (tmp_path / "soft.npy").symlink_to(path)
    (tmp_path / "hard.npy").hardlink_to(path)
    for other in (path, tmp_path / "soft.npy", tmp_path / "hard.npy"):
        with pytest.raises(InvalidValueError, match="the same file twice"):
            clip_files([path, other], None)


def test_outputs_never_collide_nor_overwrite_an_input(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "g.npy", np.full(2, 3.0))
    both = [tmp_path / "a" / "g.npy", tmp_path / "b" / "g.npy"]
    assert clip_files(both, None).norm == 6.0
    with pytest.raises(InvalidValueError, match="one name"):
        clip_files(both, 1, tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for out in (tmp_path / "a", tmp_path / "link", tmp_path / "b" / ".." / "a"):
        with pytest.raises(InvalidValueError, match="other than the inputs' own"):
            clip_files(both[:1], 1, out)
    (tmp_path / "alias").mkdir()
    (tmp_path / "alias" / "g.npy").symlink_to(both[0])
    with pytest.raises(InvalidValueError, match="other than the inputs' own"):
        clip_files([tmp_path / "alias" / "g.npy"], 1, tmp_path / "a")
    assert np.load(both[0]).tolist() == [3.0, 3.0]


def test_an_earlier_output_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.array([3.0, 4.0]))
    (tmp_path / "g.npy").chmod(0o640)
    for limit in (1, 2.5):
        clip_files([tmp_path / "g.npy"], limit, tmp_path / "out")
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["g.npy"]
    assert np.load(tmp_path / "out" / "g.npy").tolist() == [1.5, 2.0]
    assert (tmp_path / "out" / "g.npy").stat().st_mode & 0o777 == 0o640


def test_when_one_file_cannot_be_written_none_is(tmp_path: Path) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.full(2, 3.0))
    (tmp_path / "out" / "b.npy").mkdir(parents=True)
    with pytest.raises(InvalidValueError, match="folder"):
        clip_files([tmp_path / "a.npy", tmp_path / "b.npy"], 1, tmp_path / "out")
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["b.npy"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidValueError, match="folder that can be written"):
        clip_files([tmp_path / "a.npy"], 1, tmp_path / "file")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.full(100, 3.0))
    opened = open_gradient_file(tmp_path / "g.npy")
    with (tmp_path / "g.npy").open("r+b") as stream:
        stream.truncate(200)
    with pytest.raises(InvalidValueError, match="stay as it is"):
        reading.sum_of_squares(opened, reading.kernel_for([opened]))


def test_a_kill_while_writing_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stops the writer (here an exception that nothing handles), the target is as it was."""
    np.save(tmp_path / "g.npy", np.array([3.0, 4.0]))
    clip_files([tmp_path / "g.npy"], 1, tmp_path / "out")
    before = (tmp_path / "out" / "g.npy").read_bytes()

    def stop(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        clip_files([tmp_path / "g.npy"], 2, tmp_path / "out")
    assert (tmp_path / "out" / "g.npy").read_bytes() == before
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["g.npy"]


@pytest.mark.parametrize("name", list(FLOATS))
def test_torch_reads_what_is_written(tmp_path: Path, name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from safetensors.torch import load_file
    from safetensors.torch import save_file as save_torch

    dtype = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16}[name]
    tensors = {"a": torch.tensor([[3.0, 0.1]], dtype=dtype), "b": torch.tensor([4.0], dtype=torch.bfloat16)}
    save_torch(tensors, tmp_path / "g.safetensors")
    found = clip_files([tmp_path / "g.safetensors"], 1, tmp_path / "out")
    assert found.norm == global_norm([tensors["a"][0].double().tolist(), [4.0]])
    scaled = load_file(tmp_path / "out" / "g.safetensors")
    assert {key: value.dtype for key, value in scaled.items()} == {"a": dtype, "b": torch.bfloat16}
    expected = (tensors["a"].double() * found.factor).numpy().astype(FLOATS[name])
    np.testing.assert_array_equal(scaled["a"].numpy(), expected)
