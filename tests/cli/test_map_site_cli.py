"""`shardproof map site`: exit codes, what is written, and what is left alone."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import pytest
from tests.failures.catalogues import FAMILY, SLUG, copy_catalogue
from tests.report.map_pages import executed
from typer.testing import CliRunner

from shardproof.cli.main import app
from shardproof.errors import InvalidValueError
from shardproof.failures.cases import REGISTRY, assigned, write_registry
from shardproof.failures.kept import RESULTS
from shardproof.failures.mechanism import load_catalogue
from shardproof.failures.site_records import stock_of
from shardproof.records.map_site import SiteCase, SiteIndex


@pytest.fixture
def copied(tmp_path):
    """One mechanism with its registry: (catalogue, members)."""
    catalogue, members = copy_catalogue(tmp_path / "copy")
    write_registry(assigned((), load_catalogue(catalogue)), catalogue / REGISTRY)
    return catalogue, members


@pytest.fixture
def site(copied, monkeypatch, tmp_path):
    """The command on that catalogue, with a cache of its own: (exit code, output)."""
    catalogue, members = copied
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*arguments: object):
        options = ["--catalogue", catalogue, "--members", members]
        done = CliRunner().invoke(app, ["map", "site", *map(str, [*arguments, *options])])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output

    return run


@pytest.fixture
def recorded(copied, tmp_path):
    """A folder of results as `map verify --out` writes it; each result may be changed on its way."""
    catalogue, members = copied

    def write(**changes: object):
        folder = tmp_path / "results"
        folder.mkdir(exist_ok=True)
        results = [executed(plan).model_copy(update=changes) for plan in stock_of(members, catalogue).plans]
        (folder / RESULTS).write_text("".join(one.model_dump_json() + "\n" for one in results), encoding="utf-8")
        return folder

    return write


def test_pages_without_results_say_not_run_and_are_written_again(site, tmp_path):
    out = tmp_path / "out"
    code, output = site(out)
    assert (code, output) == (
        0,
        "open tier: 5 cases of 1 mechanisms, 0 held, 0 violated, 0 could not tell, 5 not run\n",
    )
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert {path.name for path in out.iterdir()} == {"index.html", "index.json", "cases", "families", "mechanisms"}
    (out / "cases" / "SP-00009.html").write_text("of an earlier catalogue")
    assert site(out)[0] == 0
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == first
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_results_go_on_the_pages_and_their_records_beside_them(site, recorded, tmp_path):
    code, output = site(tmp_path / "out", "--records", recorded())
    assert code == 0, output
    assert "5 held" in output
    index = SiteIndex.model_validate_json((tmp_path / "out" / "index.json").read_text())
    assert index.counts.held == 5
    case = SiteCase.model_validate_json((tmp_path / "out" / "cases" / "SP-00001.json").read_text())
    assert case.observed is not None
    assert case.observed.time == "2026-01-02T03:04:05+00:00"
    assert {one.role for one in case.observed.programs} == {"failing", "unsuccessful"}
    bundle = (tmp_path / "out" / "cases" / case.bundle.file).read_bytes()
    assert (hashlib.sha256(bundle).hexdigest(), len(bundle)) == (case.bundle.sha256, case.bundle.bytes)
    with zipfile.ZipFile(io.BytesIO(bundle)) as zipped:
        for program in case.content.programs:
            assert zipped.read(f"{program.role}.py") == program.source.encode()


def test_a_violated_case_is_exit_1_and_one_that_could_not_be_told_3(site, recorded, tmp_path):
    code, output = site(tmp_path / "out", "--records", recorded(verdict="violated", broken=("failing passes all",)))
    assert code == 1
    assert f"SP-00001 {SLUG} variant 1: violated" in output
    assert site(tmp_path / "out", "--records", recorded(verdict="could not tell"))[0] == 3


def test_results_of_another_catalogue_are_exit_4_and_nothing_is_written(site, recorded, copied, tmp_path):
    records = recorded()
    with (copied[0] / FAMILY / SLUG / "failing.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef unused():\n    return 1\n")
    code, output = site(tmp_path / "out", "--records", records)
    assert code == 4
    assert "Expected results of the catalogue as it stands, got SP-00001" in " ".join(output.split())
    assert not (tmp_path / "out").exists()


def test_a_torn_line_of_results_is_left_out_and_a_foreign_one_is_exit_4(site, recorded, tmp_path):
    file = recorded() / RESULTS
    file.write_bytes(file.read_bytes()[:-20])
    assert "4 held, 0 violated, 0 could not tell, 1 not run" in site(tmp_path / "out", "--records", file.parent)[1]
    file.write_text('{"kind": "something else"}\n')
    assert site(tmp_path / "out", "--records", file.parent)[0] == 4


def test_a_folder_with_something_else_is_left_alone(site, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(InvalidValueError, match="Expected a new or empty folder"):
        site(out)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InvalidValueError, match="Expected a new or empty folder"):
        site(tmp_path / "link")
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_records_and_verify_together_are_refused(site, recorded, tmp_path):
    with pytest.raises(InvalidValueError, match="Expected --records or --verify, got both"):
        site(tmp_path / "out", "--verify", "--records", recorded())
    with pytest.raises(InvalidValueError, match=r"got .* without results\.jsonl"):
        site(tmp_path / "out", "--records", tmp_path)


def test_no_case_is_exit_5(site, copied, tmp_path):
    catalogue, _ = copied
    (catalogue / REGISTRY).unlink()
    (catalogue / FAMILY / SLUG / "mechanism.toml").unlink()
    assert site(tmp_path / "out")[0] == 5
    assert not (tmp_path / "out").exists()


@pytest.mark.processes
def test_verify_runs_the_cases_first(site, copied, tmp_path):
    code, output = site(tmp_path / "out", "--verify", "--tier", "member" if any(copied[1].iterdir()) else "open")
    assert code == 0, output
    assert "5 held" in output
    case = json.loads((tmp_path / "out" / "cases" / "SP-00005.json").read_text())
    assert case["observed"]["level"] == "process"
