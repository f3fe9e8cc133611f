"""`shardproof map` groups, split, split-check, try, publish, leaks, export, read: exit codes and what is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.failures.catalogues import FAMILY, SLUG
from tests.failures.pages import page

from shardproof.failures.mechanism import CATALOGUE, members_folder
from shardproof.records.map_share import GroupsRecord, ImportedCase, Split, SplitCheck, TryRecord

pytestmark = pytest.mark.processes
needs_members = pytest.mark.skipif(members_folder() is None, reason="repairs are held back: no members/ here")


@pytest.fixture
def shardproof(tmp_path):
    home = tmp_path / "home"
    home.mkdir()

    def run(*arguments: object):
        command = [sys.executable, "-c", "from shardproof.cli.main import run; run()", "map", *map(str, arguments)]
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=110, env=environment, cwd=home
        )

    return run


def test_splits_end_to_end(shardproof, tmp_path):
    """Made, checked, leaking when edited, another catalogue's, no split at all."""
    file = tmp_path / "split.json"
    assert shardproof("split", "--seed", 5, "-o", file).returncode == 0
    made = Split.model_validate_json(file.read_bytes())
    checked = shardproof("split-check", file, "--json")
    assert checked.returncode == 0
    assert SplitCheck.model_validate_json(checked.stdout).digest_agrees is True
    theirs = {"train": [*made.train, made.test[0]], "test": made.test[1:]}
    file.write_text(json.dumps(theirs))
    leaking = shardproof("split-check", file)
    assert leaking.returncode == 1
    assert "parted group" in leaking.stdout
    file.write_text(json.dumps({"train": made.train, "test": made.test, "catalogue_digest": "0" * 64}))
    assert shardproof("split-check", file).returncode == 4
    file.write_text("[]")
    assert shardproof("split-check", file).returncode == 2
    assert shardproof("split", "--fraction", 2, "-o", tmp_path / "none.json").returncode == 2
    assert not (tmp_path / "none.json").exists()


def test_groups(shardproof):
    done = shardproof("groups", "--json", "--level", "block")
    assert done.returncode == 0
    assert len(GroupsRecord.model_validate_json(done.stdout).groups) == 3


def test_try(shardproof, tmp_path):
    failing = CATALOGUE / FAMILY / SLUG / "failing.py"
    out = tmp_path / "record.json"
    done = shardproof("try", "SP-00001", failing, "--out", out)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "SP-00001: 5 of 7 checks; verdict: fails"
    assert TryRecord.model_validate_json(out.read_bytes()).verdict == "fails"
    assert shardproof("try", "SP-00001", tmp_path / "none.py").returncode == 2
    assert shardproof("try", SLUG, failing).returncode == 2
    assert shardproof("try", "SP-00001", failing, "--level", "none").returncode == 2
    assert shardproof("try", "SP-00001", failing, "--held-back", "--members", tmp_path).returncode == 3


@needs_members
def test_a_repair_passes(shardproof):
    done = shardproof("try", "FA-99266", members_folder() / SLUG / "repair.py", "--held-back")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].endswith("verdict: passes")


@needs_members
def test_publish_and_leaks(shardproof, tmp_path):
    out, page_ = tmp_path / "open", tmp_path / "page.md"
    assert shardproof("publish", "--tier", "open", out, "--case", "SP-00001").returncode == 0
    assert shardproof("publish", "--tier", "open", out, "--case", "SP-00001").returncode == 2, "there is something"
    page_.write_text((members_folder() / SLUG / "repair.py").read_text().replace("shard", "piece"))
    assert shardproof("leaks", out).returncode == 0
    found = shardproof("leaks", out, page_)
    assert found.returncode == 1
    assert f"page.md: repair of {SLUG}" in found.stdout
    refused = shardproof("publish", "--tier", "open", tmp_path / "two", "--case", "SP-00001", "--wheel", page_)
    assert refused.returncode == 1
    assert not (tmp_path / "two").exists()
    assert shardproof("publish", "--tier", "member", tmp_path / "m", "--case", "SP-00001").returncode == 0


def test_nothing_to_look_for_is_no_verdict(shardproof, tmp_path):
    (tmp_path / "none").mkdir()
    assert shardproof("leaks", tmp_path / "none", "--members", tmp_path / "none").returncode == 3
    none = ("--members", tmp_path / "none", "--case", "SP-00001")
    assert shardproof("publish", "--tier", "open", tmp_path / "open", *none).returncode == 3
    assert not (tmp_path / "open").exists()


def test_export(shardproof, tmp_path):
    done = shardproof("export", "--format", "json", tmp_path / "json", "--case", "SP-00001")
    assert done.returncode == 0
    assert sorted(path.name for path in (tmp_path / "json").iterdir()) == ["SHA256SUMS", "SP-00001.json"]
    assert shardproof("export", "--format", "in-toto", tmp_path / "x", "--case", "SP-00001").returncode == 2
    assert not (tmp_path / "x").exists()


def test_read(shardproof, tmp_path):
    file = tmp_path / "page.txt"
    file.write_text(page())
    done = shardproof("read", file)
    assert done.returncode == 0
    assert ImportedCase.model_validate_json(done.stdout).id == "FA-00042"
    file.write_text(page().replace("norm = sum", "norm  = sum"))
    assert shardproof("read", file).returncode == 4
    file.write_text("no page")
    assert shardproof("read", file).returncode == 2
