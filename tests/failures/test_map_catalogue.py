"""The catalogue as a whole: every mechanism lints, every variant meets the role rules, schemas are the code's."""

from __future__ import annotations

import functools
import json
import zipfile
from pathlib import Path

import pytest
from tests.failures.catalogues import SLUG, copy_catalogue, edit

from shardproof.errors import InvalidValueError
from shardproof.failures import lowered
from shardproof.failures.lint import UNFILLED, lint_mechanism
from shardproof.failures.matrix import separation
from shardproof.failures.mechanism import (
    CATALOGUE,
    CONTRACTS,
    MEMBERS_PACKAGE,
    Mechanism,
    folders_named,
    function_of,
    load_catalogue,
    load_mechanism,
    mechanism_folders,
    member_of,
    members_folder,
    read_toml,
)
from shardproof.failures.plan import load, plan_case
from shardproof.failures.roles import try_variant
from shardproof.failures.scaffold import scaffold
from shardproof.failures.schema import PUBLISHED, schemas
from shardproof.records.map import MechanismFile

ROOT = Path(__file__).parents[2]
FOLDERS = mechanism_folders()
# Each mechanism's own variants, and numbers where shapes turn and scales wrap round.
BESIDE = (1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 24, 60, 96, 97, 98, 194, 250, 999, 1000)


@functools.cache
def mechanism(folder: Path) -> Mechanism:
    return load_mechanism(folder)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_mechanism_of_the_catalogue_lints(folder):
    """Schema, names, prose, syntax, checks as data; with its repair where that is there."""
    assert lint_mechanism(folder, members_folder()) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_variant_meets_the_role_rules(folder):
    """In this process; `map verify` does the same isolated."""
    member = member_of(folder.name, members_folder())
    for n in sorted({*mechanism(folder).says.variants, *BESIDE}):
        assert try_variant(mechanism(folder), n, member) == [], n


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_variant_renders(folder):
    """Two programs without repairs, and a digest of its own for each variant."""
    loaded = load(mechanism(folder), None)
    plans = [plan_case(loaded, f"{folder.name}/{n}", n) for n in mechanism(folder).says.variants]
    assert all([program.role for program in plan.programs] == ["failing", "unsuccessful"] for plan in plans)
    assert len({plan.digest for plan in plans}) == len(plans)


def test_every_repair_in_a_checkout_belongs_to_a_mechanism():
    """And every mechanism has one there."""
    members = ROOT / "members"
    assert {path.parent.name for path in members.glob("*/repair.py")} == {folder.name for folder in FOLDERS}


def test_contracts_keep_to_one_evaluation_group():
    """A contract that is shared unites the groups of its mechanisms."""
    groups: dict[str, set[str]] = {}
    for folder in FOLDERS:
        says = mechanism(folder).says
        groups.setdefault(says.contract, set()).add(says.group)
    assert {contract: found for contract, found in groups.items() if len(found) > 1} == {}
    assert {path.name for path in (CATALOGUE / CONTRACTS).iterdir() if path.is_dir()} == set(groups)


def test_published_schemas_are_those_of_the_code():
    """docs/schema, byte for byte, and nothing else in it."""
    folder = ROOT / "docs" / "schema"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == schemas()
    assert set(schemas()) == set(PUBLISHED)
    for text in schemas().values():
        assert json.loads(text)["additionalProperties"] is False


def test_lowered_is_every_wrong_implementation_with_a_lowering():
    """Two for each mechanism whose contract has one; solve is the page's own file."""
    found = list(lowered())
    with_lowering = [one for one in load_catalogue() if one.contract.lowering is not None]
    assert [(one.slug, one.role) for one in found] == [
        (one.slug, role) for one in with_lowering for role in ("failing", "unsuccessful")
    ]
    assert found, "no contract has a lowering"
    for one in found:
        assert callable(one.solve)
        assert one.contract == mechanism(folders_named([one.slug])[0]).says.contract


def test_the_matrix_tells_apart_and_lists_what_it_cannot(tmp_path):
    """Two mechanisms under one contract, the second with a copy of the first one's failure."""
    catalogue, members = copy_catalogue(tmp_path)
    first = catalogue / "norm-scope" / SLUG
    second = catalogue / "norm-scope" / "renamed-clip"
    second.mkdir()
    for path in first.iterdir():
        (second / path.name).write_text(path.read_text())
    edit(second / "mechanism.toml", f'"{SLUG}"', '"renamed-clip"')
    (second / "unsuccessful.py").write_text('"""Nothing."""\n\n\ndef solve(shards, limit):\n    return shards\n')
    record = separation(load_catalogue(catalogue), members)
    contract = record.contracts[0]
    assert len(contract.checks) == 14
    assert (f"{SLUG}/failing", "renamed-clip/failing") in contract.equivalent
    assert not any({pair.left, pair.right} == {f"{SLUG}/failing", "renamed-clip/failing"} for pair in contract.weakest)
    told = next(p for p in contract.weakest if (p.left, p.right) == (f"{SLUG}/failing", f"{SLUG}/unsuccessful"))
    assert f"{SLUG}: single shard same global rule" in told.checks
    assert all(pair.checks for pair in contract.weakest)


def test_a_scaffold_lints_with_what_is_to_be_filled_in(tmp_path):
    """Every file is there; lint names each place, and nothing about missing files."""
    catalogue, members = copy_catalogue(tmp_path)
    made = scaffold("new-one", "ordering", "new-contract", catalogue=catalogue, members=members)
    assert {path.name for path in made} == {
        "contract.toml",
        "mechanism.toml",
        "failing.py",
        "unsuccessful.py",
        "checks.py",
        "repair.py",
    }
    said = lint_mechanism(catalogue / "ordering" / "new-one", members)
    for file in ("mechanism.toml", "failing.py", "unsuccessful.py", "repair.py", "contract.toml"):
        assert any(f"{file}" in sentence and "not filled in" in sentence for sentence in said), file
    assert any("1 checks, expected 5 to 10" in sentence for sentence in said)
    assert not any("No such file" in sentence or "schema" in sentence for sentence in said)
    assert UNFILLED in (catalogue / "ordering" / "new-one" / "checks.py").read_text()
    with pytest.raises(InvalidValueError, match="a new slug"):
        scaffold("new-one", "other", "new-contract", catalogue=catalogue, members=None)
    for slug in ("New", "a_b", "-a", ""):
        with pytest.raises(InvalidValueError, match="slug="):
            scaffold(slug, "ordering", "clip-shards", catalogue=catalogue, members=None)


def test_files_that_cannot_be_read_are_named(tmp_path):
    """Path and field, or path and error."""
    path = tmp_path / "mechanism.toml"
    with pytest.raises(InvalidValueError, match="No such file"):
        read_toml(path, MechanismFile)
    path.write_text("schema = ")
    with pytest.raises(InvalidValueError, match="Expected TOML"):
        read_toml(path, MechanismFile)
    path.write_text('schema = "shardproof.mechanism/2"')
    with pytest.raises(InvalidValueError, match=r"schema: Input should be.*slug: Field required"):
        read_toml(path, MechanismFile)
    code = tmp_path / "checks.py"
    code.write_text("1 / 0")
    with pytest.raises(InvalidValueError, match="ZeroDivisionError"):
        function_of(code, "checks")
    code.write_text("check = 1")
    with pytest.raises(InvalidValueError, match="a function checks"):
        function_of(code, "checks")


def test_names_of_folders(tmp_path):
    """A slug, a family, a path; a name that is none of these is an error."""
    catalogue, _ = copy_catalogue(tmp_path)
    folder = catalogue / "norm-scope" / SLUG
    for name in (SLUG, "norm-scope", folder, folder.parent, catalogue):
        assert folders_named([name], catalogue) == [folder], name
    with pytest.raises(InvalidValueError, match="'contracts'"):
        folders_named(["contracts"], catalogue)


def built(folder: Path, out: Path) -> zipfile.ZipFile:
    reason = "hatchling, which builds wheels, is not installed"
    builder = pytest.importorskip("hatchling.builders.wheel", reason=reason)
    return zipfile.ZipFile(next(builder.WheelBuilder(str(folder)).build(directory=str(out), versions=["standard"])))


def test_repairs_are_never_in_the_wheel(tmp_path):
    """Built by the project's own back end: the catalogue is in, no repair, no held-back check, no members/."""
    wheel = built(ROOT, tmp_path)
    names = wheel.namelist()
    assert f"shardproof/failures/catalogue/norm-scope/{SLUG}/mechanism.toml" in names
    assert "shardproof/failures/catalogue/cases.jsonl" in names
    assert [name for name in names if "members" in name or Path(name).name in ("repair.py", "held_back.py")] == []
    repairs = {path.read_text() for path in (ROOT / "members").glob("*/repair.py")}
    assert not {wheel.read(name).decode() for name in names if name.endswith(".py")} & repairs


def test_the_member_distribution_holds_repairs_and_checks_only(tmp_path):
    """Under the name by which the package finds it when both are installed."""
    names = [name for name in built(ROOT / "members", tmp_path).namelist() if "dist-info" not in name]
    repairs = [f"{MEMBERS_PACKAGE}/{path.parent.name}/repair.py" for path in (ROOT / "members").glob("*/repair.py")]
    assert set(repairs) <= set(names)
    assert {Path(name).name for name in names} <= {"__init__.py", "repair.py", "held_back.py"}
    assert all(name.startswith(f"{MEMBERS_PACKAGE}/") for name in names)
