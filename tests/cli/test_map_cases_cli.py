"""`shardproof map`, all but verify-page: exit codes, what is printed, what is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.failures.catalogues import FAMILY, SLUG, copy_catalogue

from shardproof.failures.kept import RESULTS, read_results
from shardproof.failures.mechanism import mechanism_folders
from shardproof.records.map import CaseContent, CaseResult, MapSummary, MatrixRecord

pytestmark = pytest.mark.processes


@pytest.fixture
def shardproof(tmp_path):
    """The command, with a cache of its own and nothing else in its folder."""
    home = tmp_path / "home"
    home.mkdir()

    def run(*arguments: object):
        command = [sys.executable, "-c", "from shardproof.cli.main import run; run()", "map", *map(str, arguments)]
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=100, env=environment, cwd=home
        )

    return run


@pytest.fixture
def copied(tmp_path):
    return copy_catalogue(tmp_path / "copy")


def test_verify_exits_0_1_2_4(shardproof, copied, tmp_path):
    """Each exit code by what brings it about."""
    catalogue, members = copied
    folder = catalogue / FAMILY / SLUG
    quick = ("--level", "none", "--jobs", 1, "--members", members)
    held = shardproof("verify", f"{SLUG}/1", "--level", "none")
    assert (held.returncode, held.stdout.splitlines()[-1]) == (0, "verdict: held")
    assert shardproof("verify", "no-such").returncode == 2
    assert shardproof("verify", folder, *quick, "--variants", "0").returncode == 2
    unknown = shardproof("verify", f"{SLUG}/1", "--level", "nothing")
    assert unknown.returncode == 2
    out = tmp_path / "out"
    out.mkdir()
    (out / RESULTS).write_text('{"kind": "something else"}\n')
    assert shardproof("verify", f"{SLUG}/1", *quick, "--out", out).returncode == 4
    for role in ("failing", "unsuccessful"):
        (folder / f"{role}.py").write_text(f'"""{role}."""\n\n\ndef solve(shards, limit):\n    return shards\n')
    violated = shardproof("verify", folder, *quick)
    assert violated.returncode == 1
    assert f"{SLUG}/1 {SLUG} variant 1: violated" in violated.stdout
    assert "  failing and unsuccessful have the same syntax tree" in violated.stdout
    for done in (held, unknown, violated):
        assert "Traceback" not in done.stderr


def test_an_empty_catalogue_is_exit_5(shardproof, copied):
    """Where nothing is selected nothing held."""
    catalogue, _ = copied
    for role in mechanism_folders(catalogue):
        for path in role.iterdir():
            path.unlink()
        role.rmdir()
    assert shardproof("cases", "--catalogue", catalogue).returncode == 5


def test_a_registry_that_breaks_its_rules_is_exit_4(shardproof, copied):
    """`map cases` assigns, withdraws, and refuses a file from which a line was taken."""
    catalogue, _ = copied
    path = catalogue / "cases.jsonl"
    missing = shardproof("cases", "--catalogue", catalogue)
    assert missing.returncode == 1
    assert f"{SLUG}: no id for variants 1, 2, 3, 4, 5" in missing.stdout
    assert shardproof("cases", "--catalogue", catalogue, "--assign").returncode == 0
    old = catalogue / "old.jsonl"
    old.write_text(path.read_text())
    gone = shardproof("cases", "--catalogue", catalogue, "--withdraw", "SP-00005", "--reason", "not exact")
    assert gone.returncode == 0
    assert shardproof("cases", "--catalogue", catalogue, "--against", old).returncode == 0
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]))
    cut = shardproof("cases", "--catalogue", catalogue, "--against", old)
    assert cut.returncode == 1
    assert "SP-00005 is gone" in cut.stdout
    path.write_text("".join(lines[:2] + lines[3:]))
    broken = shardproof("cases", "--catalogue", catalogue)
    assert (broken.returncode, "expected SP-00003" in broken.stderr) == (4, True)


def test_an_isolation_level_that_cannot_be_had_is_exit_3(shardproof, monkeypatch, tmp_path):
    """Namespaces need a tool that an empty PATH does not have; nothing is run at another level instead."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    done = shardproof("verify", f"{SLUG}/1", "--level", "namespaces")
    assert done.returncode == 3
    assert "could not tell" in done.stderr
    assert "verdict" not in done.stdout


def test_json_is_a_line_for_each_case_and_the_summary(shardproof, copied, tmp_path):
    """The lines are the records; with --out the same stand on disk; without it only the cache is left."""
    catalogue, members = copied
    asked = ("verify", catalogue / FAMILY / SLUG, "--level", "none", "--members", members, "--json")
    lines = shardproof(*asked).stdout.splitlines()
    results = [CaseResult.model_validate_json(line) for line in lines[:-1]]
    assert sorted(result.variant for result in results) == [1, 2, 3, 4, 5]
    assert MapSummary.model_validate_json(lines[-1]).ran == 5
    assert list((tmp_path / "home").iterdir()) == []
    again = shardproof(*asked, "--out", tmp_path / "out").stdout.splitlines()
    assert MapSummary.model_validate_json(again[-1]).from_cache == 5
    assert {result.key for result in read_results(tmp_path / "out" / RESULTS)} == {result.key for result in results}


def test_show_prints_a_case_in_the_order_of_its_page(shardproof):
    """By its published id; both programs with exit, table and digest, and what is known of the repair."""
    done = shardproof("show", "FA-99266", "--level", "none")
    assert done.returncode == 0
    order = [
        "SP-00001 / norm-scope / local-shard-clip",
        "Also published as FA-99266",
        "ROOT CAUSE",
        "Unsuccessful approach",
        "Case contract",
        "Why this case matters",
        "1 / The failure",
        "Exit 1",
        "norm spans two shards",
        "SHA-256 / ",
        "2 / The unsuccessful fix",
        "Verification & scope",
        "Observations recorded using Python",
        "Case digest / ",
        "verdict: held",
    ]
    places = [done.stdout.index(text) for text in order]
    assert places == sorted(places)
    content, result = shardproof("show", f"{SLUG}/1", "--level", "none", "--json").stdout.splitlines()
    assert CaseContent.model_validate_json(content).id == CaseResult.model_validate_json(result).id == "SP-00001"
    assert "math.hypot" in json.loads(content)["programs"][0]["source"]
    assert shardproof("show", SLUG).returncode == 2


def test_without_members_the_repair_is_said_to_be_held_back(shardproof, tmp_path):
    """Not missing, not passed: the summary and the page say so."""
    (tmp_path / "none").mkdir()
    done = shardproof("verify", f"{SLUG}/1", "--level", "none", "--members", tmp_path / "none")
    assert (done.returncode, "repair held back for 1 cases" in done.stdout) == (0, True)
    shown = shardproof("show", f"{SLUG}/1", "--level", "none", "--members", tmp_path / "none")
    assert "held back, for every case of this mechanism" in shown.stdout
    assert "3 / The repair" not in shown.stdout


def test_list_lint_new_and_matrix(shardproof, copied):
    """The commands that run nothing isolated."""
    catalogue, members = copied
    listed = shardproof("list", SLUG)
    assert (listed.returncode, "SP-00001 and 4 more" in listed.stdout) == (0, True)
    linted = shardproof("lint", catalogue / FAMILY / SLUG, "--members", members, "--roles", "--variants", "1-3,7")
    assert (linted.returncode, linted.stdout.splitlines()[-1]) == (0, "1 mechanisms, 0 problems")
    made = shardproof("new", "fresh-one", "--family", "ordering", "--catalogue", catalogue, "--members", members)
    assert made.returncode == 0
    unfilled = shardproof("lint", catalogue / "ordering" / "fresh-one", "--members", members)
    assert (unfilled.returncode, "title is not filled in" in unfilled.stdout) == (1, True)
    matrix = shardproof("matrix", SLUG, "--json")
    assert MatrixRecord.model_validate_json(matrix.stdout).contracts[0].contract == "clip-shards"
