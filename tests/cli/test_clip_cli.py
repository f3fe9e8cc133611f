"""`shardproof clip` as a user meets it: what goes to which stream, and which exit code."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from shardproof.cli import main
from shardproof.cli.exits import Exit


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def shardproof(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs the command line in this process, with `given` on standard input."""

    def run(*arguments: object, given: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "argv", ["shardproof", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as stopped:
            main.run()
        out, err = capsys.readouterr()
        return Ran(int(stopped.value.code or 0), out, err)

    return run


@pytest.fixture
def ranks(tmp_path: Path) -> list[Path]:
    """Two ranks' files with the norm 5."""
    paths = [tmp_path / "rank0.npy", tmp_path / "rank1.npy"]
    for path, value in zip(paths, (3.0, 4.0), strict=True):
        np.save(path, np.array([value, 0.0], "f4"))
    return paths


def test_json_in_json_out(shardproof, tmp_path: Path) -> None:
    text = b"[[3, 0], [0, 4]]"
    (tmp_path / "shards.json").write_bytes(text)
    for source in ([], ["-"], [tmp_path / "shards.json"]):
        ran = shardproof("clip", "--limit", 2, *source, given=text)
        assert (ran.code, ran.out) == (Exit.HELD, "[[1.2, 0.0], [0.0, 1.6]]\n")
        assert ran.err == "norm 5.0, factor 0.4, limit 2.0\n"


def test_ints_that_are_not_scaled_are_printed_as_ints(shardproof) -> None:
    assert shardproof("clip", "--limit", "inf", given=b"[[3, 0], [], [4]]").out == "[[3, 0], [], [4]]\n"


def test_json_object(shardproof, ranks: list[Path]) -> None:
    ran = shardproof("clip", "--limit", 2, "--json", given=b"[[3], [4]]")
    assert json.loads(ran.out) == {"norm": 5.0, "factor": 0.4, "limit": 2.0, "shards": [[1.2], [1.6]]}
    ran = shardproof("clip", "--limit", "inf", "--json", *ranks)
    assert json.loads(ran.out) == {
        "norm": 5.0,
        "factor": 1.0,
        "limit": "inf",
        "files": [{"file": str(path), "tensors": 1, "elements": 2, "written": None} for path in ranks],
    }


def test_a_norm_of_inf_is_written_as_text(shardproof) -> None:
    ran = shardproof("clip", "--limit", 2, "--json", given=b"[[1.7e308, 1.7e308]]")
    found = json.loads(ran.out)
    assert (found["norm"], found["shards"]) == ("inf", [[round(math.sqrt(2), 12)] * 2])


def test_files(shardproof, ranks: list[Path], tmp_path: Path) -> None:
    ran = shardproof("clip", "--limit", 2.5, *ranks)
    assert (ran.code, ran.err) == (Exit.HELD, "")
    assert ran.out == "norm    5.0\nfactor  0.5\nlimit   2.5\n"
    out = tmp_path / "clipped"
    ran = shardproof("clip", "--limit", 2.5, "--out", out, *ranks)
    assert ran.out.splitlines()[3:] == [f"scaled  {path} -> {out / path.name}" for path in ranks]
    assert np.load(out / "rank1.npy").tolist() == [2.0, 0.0]
    ran = shardproof("clip", "--limit", 10, "--json", "--out", out, *ranks)
    assert [file["written"] for file in json.loads(ran.out)["files"]] == [str(out / path.name) for path in ranks]
    assert (out / "rank1.npy").read_bytes() == ranks[1].read_bytes()
    assert "copied" in shardproof("clip", "--limit", 10, "--out", out, *ranks).out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--limit"],
        ["--limit", "-1"],
        ["--limit", "nan"],
        ["--limit", "much"],
        ["--limit", "1", "--no-such-option"],
        ["--limit", "1", "--out", "somewhere"],
        ["--limit", "1", "absent.json"],
        ["--limit", "1", "absent.npy"],
        ["--limit", "1", "."],
        ["--limit", "1", "-", "rank0.npy"],
        ["--limit", "1", "-", "-"],
        ["--limit", "1", "a.json", "b.json"],
        ["--limit", "1", "--out", ".", "rank0.npy"],
        ["--limit", "1", "rank0.npy", "rank0.npy"],
    ],
    ids=" ".join,
)
def test_usage_errors(shardproof, ranks, monkeypatch, tmp_path: Path, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    ran = shardproof("clip", *arguments, given=b"[[1]]")
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"no json",
        b"[[NaN]]",
        b"[[Infinity]]",
        b"{}",
        b"true",
        b'["3"]',
        b"[[true]]",
        b"[[null]]",
        b"[" * 200_000,
        b"[[1e999]]",
        b"[[" + b"7" * 401 + b"]]",
        b"[[" + b"7" * 5000 + b"]]",
        b"\xff\x00",
    ],
    ids=lambda given: given[:10].decode("ascii", "replace"),
)
def test_bad_json_is_refused_with_a_message(shardproof, given: bytes) -> None:
    ran = shardproof("clip", "--limit", 1, given=given)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith("shardproof: Expected ")
    assert "Traceback" not in ran.err
    assert len(ran.err) < 500


def test_a_value_that_is_not_finite_is_named(shardproof, tmp_path: Path) -> None:
    np.save(tmp_path / "rank7.npy", np.array([1.0, math.nan]))
    ran = shardproof("clip", "--limit", 1, tmp_path / "rank7.npy")
    assert ran.code == Exit.USAGE
    assert "rank7.npy, the array, index 1" in ran.err


def test_an_unreadable_file_is_refused(shardproof, tmp_path: Path) -> None:
    for name in ("g.json", "g.npy"):
        (tmp_path / name).write_bytes(b"[[1]]")
        (tmp_path / name).chmod(0)
    if os.access(tmp_path / "g.json", os.R_OK):
        pytest.skip("this user (root) may read files of mode 0")
    for name in ("g.json", "g.npy"):
        ran = shardproof("clip", "--limit", 1, tmp_path / name)
        assert ran.code == Exit.USAGE
        assert "Permission denied" in ran.err


def test_a_file_name_that_is_no_text_is_printed(shardproof, tmp_path: Path) -> None:
    name = os.fsdecode(b"rank\xff.npy")
    np.save(tmp_path / "g.npy", np.ones(1))
    (tmp_path / "g.npy").rename(tmp_path / name)
    ran = shardproof("clip", "--limit", 1, "--out", tmp_path / "out", tmp_path / name)
    assert ran.code == Exit.HELD
    assert (tmp_path / "out" / name).exists()


@pytest.mark.processes
def test_a_closed_pipe_is_said_once_and_exits_2() -> None:
    """`shardproof clip ... | true`: the reader is gone before anything is written."""
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [sys.executable, "-m", "shardproof", "clip", "--limit", "1"],
        input=b"[[1]]",
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert ran.returncode == Exit.USAGE
    assert ran.stderr.decode().splitlines()[-1].startswith("shardproof: Standard output")
    assert b"Traceback" not in ran.stderr


@pytest.mark.processes
def test_a_full_disk_is_said_and_exits_2() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "shardproof", "clip", "--limit", "1"],
            input=b"[[1]]",
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ran.returncode == Exit.USAGE
    assert b"No space left" in ran.stderr


@pytest.mark.processes
def test_the_command_is_installed_and_reads_a_pipe() -> None:
    command = Path(sys.executable).with_name("shardproof")
    ran = subprocess.run([command, "clip", "--limit", "2"], input=b"[[3], [4]]", capture_output=True, check=True)
    assert ran.stdout == b"[[1.2], [1.6]]\n"
