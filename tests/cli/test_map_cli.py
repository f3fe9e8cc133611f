"""`shardproof map verify-page`: exit codes, the printed verdict, the written record."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from rich.console import Console
from tests.failures.pages import SEEDS, needs_seed, page, source

from shardproof.failures import verify_page
from shardproof.records.page import PageVerdict
from shardproof.report.page import printable, render_page

pytestmark = pytest.mark.processes


def shardproof(*arguments: object, **options):
    command = [sys.executable, "-c", "from shardproof.cli.main import run; run()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)


@pytest.fixture
def write(tmp_path):
    def run(text: str):
        path = tmp_path / "page.txt"
        path.write_bytes(text.encode())
        return path

    return run


@needs_seed
def test_the_published_page_verifies_14_of_14():
    """The command of the README: exit 0, the count on the last line, the digests and what is not held before."""
    done = shardproof("map", "verify-page", next(SEEDS.glob("*.txt")))
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[-1] == "14 of 14 observations agree"
    assert sum("matches" in line for line in lines) == 2
    assert any(line.startswith("case digest 72c690d2") and "recorded, unchecked" in line for line in lines)
    assert any("clip_shards passes 7 of 7 checks" in line for line in lines)
    assert any(line.startswith("  not held:") and "network" in line for line in lines)
    assert b"\x1b" not in done.stdout


def test_each_verdict_has_its_exit_code(write):
    """0 held, 1 not reproduced, 2 no page, 3 could not tell, 4 digest mismatch, and 4 outweighs 1."""
    text = page()
    sleeping = page("import time; time.sleep(0)\n" + source())
    for changed, code in (
        (text, 0),
        (text.replace("Passed", "Failed", 1), 1),
        (text.replace("Exit 1", "Exit 2", 1), 1),
        (text.replace("ROOT CAUSE", "CAUSE"), 2),
        (text.replace("\n", "\r\n"), 2),
        (text.replace("SHA-256 / ", "SHA-256 / 0", 1), 4),
        (text.replace("SHA-256 / ", "SHA-256 / 0", 1).replace("Passed", "Failed", 1), 4),
        (sleeping, 0),
    ):
        done = shardproof("map", "verify-page", write(changed))
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr


def test_a_page_that_cannot_be_told_exits_3(write):
    """The repair cannot be asked, everything else agrees."""
    program = source(checks="check('not of solve', [1], [1])\n")
    done = shardproof("map", "verify-page", write(page(program, program, checks=1)))
    assert done.returncode == 3
    assert done.stdout.decode().splitlines()[-2:] == ["verdict: could not tell", "2 of 2 observations agree"]


def test_usage_errors_exit_2(tmp_path, write):
    """A missing file, an unknown level, a file that cannot be written."""
    (tmp_path / "file").touch()
    good = write(page())
    for arguments in (
        (tmp_path / "none",),
        (tmp_path,),
        (good, "--level", "nonsense"),
        (good, "--out", tmp_path / "file" / "record.json"),
        (good, "--out", tmp_path),
    ):
        done = shardproof("map", "verify-page", *arguments)
        assert done.returncode == 2, done
        assert b"Traceback" not in done.stderr


def test_the_printed_and_the_written_record_are_one(tmp_path, write):
    """--json prints what --out writes; both parse as the record."""
    out = tmp_path / "record.json"
    done = shardproof("map", "verify-page", write(page()), "--json", "--out", out, "--level", "none")
    assert done.returncode == 0
    assert done.stdout == out.read_bytes()
    verdict = PageVerdict.model_validate_json(done.stdout)
    assert verdict.verdict == "held"
    assert verdict.implementations[0].run.isolation.achieved == "none"


def test_an_ascii_terminal_is_no_obstacle(write):
    """What the output cannot encode is written as an escape."""
    done = shardproof("map", "verify-page", write(page(title="Äöü ✓")), env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert b"\\xc4\\xf6\\xfc \\u2713" in done.stdout


def test_a_pages_words_are_shown_and_never_obeyed(write):
    """Terminal escapes, markup and text that runs backwards in labels are printed as what they are."""
    checks = "check('[bold]\\x1b[2J\\u202e\\r', solve([[3*N]], N), [[N]])\n"
    verdict = verify_page(write(page(source(checks=checks), source(checks=checks), checks=1)))
    stream = io.StringIO()
    render_page(verdict, Console(file=stream, width=200))
    assert verdict.verdict == "held"
    assert "[bold]\\x1b[2J\\u202e\\r" in stream.getvalue()
    assert not {"\x1b", "\u202e", "\r"} & set(stream.getvalue())
    assert printable("a\nb") == "a\\nb"


def test_a_difference_is_printed_with_its_row(write):
    """The sentence of the record stands below the table of its implementation."""
    path = write(page().replace("`[[2], [2]]`\tPassed", "`[[2], [2]]`\tFailed", 1))
    verdict = verify_page(path)
    stream = io.StringIO()
    render_page(verdict, Console(file=stream, width=200))
    assert "  ! row 2 'below the limit': outcome: recorded Failed, observed Passed" in stream.getvalue()
    assert stream.getvalue().splitlines()[-1] == "7 of 8 observations agree"
    assert json.loads(verdict.model_dump_json())["agreeing"] == 7
