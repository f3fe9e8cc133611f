"""pyproject.toml, constraints, Makefile, CI and pre-commit agree; no path of one machine is in the project."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import shardproof

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PYTHONS = ["3.11", "3.12", "3.13"]


def requirements() -> list[Requirement]:
    """What the Makefile installs: the package, its torch extra, the development tools."""
    project = PROJECT["project"]
    texts = project["dependencies"] + project["optional-dependencies"]["torch"] + group("dev")
    return [Requirement(text) for text in texts]


def group(name: str) -> list[str]:
    """The requirements of a dependency group, those of included groups with them."""
    listed = PROJECT["dependency-groups"][name]
    return [text for each in listed for text in ([each] if isinstance(each, str) else group(each["include-group"]))]


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {name.lower(): Version(version) for name, version in pairs}


def test_python_versions_agree() -> None:
    named = [line.rsplit(" ", 1)[1] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line]
    assert named == PYTHONS
    supported = SpecifierSet(PROJECT["project"]["requires-python"])
    assert all(version in supported for version in PYTHONS)
    assert "3.10" not in supported
    assert PROJECT["tool"]["mypy"]["python_version"] == PYTHONS[0]
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + PYTHONS[0].replace(".", "")
    bounds = re.search(r"\((\d), (\d+)\) <= sys\.version_info\[:2\] <= \((\d), (\d+)\)", MAKEFILE)
    assert bounds is not None
    assert [f"{bounds[1]}.{bounds[2]}", f"{bounds[3]}.{bounds[4]}"] == [PYTHONS[0], PYTHONS[-1]]


def test_the_version_is_said_once_and_the_changelog_has_it() -> None:
    assert PROJECT["project"]["version"] == shardproof.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {shardproof.__version__}" in changelog


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_a_requirement_is_open_and_pinned_within_its_range(requirement: Requirement) -> None:
    assert {specifier.operator for specifier in requirement.specifier} == {">="}
    assert requirement.name.lower() in pins(), f"{requirement.name} is not in constraints.txt"
    assert pins()[requirement.name.lower()] in requirement.specifier


def test_pins_are_what_the_pinned_packages_admit() -> None:
    """As far as they are installed: pip would find no version of a package that is pinned past another one's range."""
    installed = {each.name.lower().replace("_", "-") for each in importlib.metadata.distributions()}
    for name in installed.intersection(pins()):
        for text in importlib.metadata.requires(name) or ():
            asked = Requirement(text)
            pin = pins().get(asked.name.lower().replace("_", "-"))
            if pin is not None and (asked.marker is None or asked.marker.evaluate({"extra": ""})):
                assert asked.specifier.contains(pin, prereleases=True), f"{name} asks for {asked}, pinned is {pin}"


def test_the_tests_run_with_torch_2_13() -> None:
    assert pins()["torch"] == Version("2.13.0")
    assert "torch>=2.9" in PROJECT["project"]["optional-dependencies"]["torch"]


@pytest.mark.parametrize("installed", [True, False])
def test_ci_ends_as_make_test_does_whether_or_not_a_browser_can_be_had(installed: bool, tmp_path: Path) -> None:
    """The script's own lines, with stubs for what it calls: a browser that cannot be installed changes nothing."""
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    (tmp_path / ".ci").mkdir()
    shutil.copy(script, tmp_path / ".ci" / "run")
    called = tmp_path / "called"
    stubs = {"make": 'echo "make $*" >> called; exit 7', "id": "echo 0", "timeout": 'shift; "$@"'}
    stubs["apt-get"] = f'echo "apt-get $*" >> called; exit {0 if installed else 100}'
    for name, body in stubs.items():
        stub = tmp_path / "bin" / name
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        stub.chmod(0o755)
    bash, dirname = (shutil.which(name) for name in ("bash", "dirname"))
    assert bash
    assert dirname
    (tmp_path / "bin" / "dirname").symlink_to(dirname)
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    done = subprocess.run([bash, tmp_path / ".ci" / "run"], env={"PATH": str(tmp_path / "bin")}, check=False)
    lines = called.read_text(encoding="utf-8").splitlines()
    assert (done.returncode, lines[-1]) == (7, "make test")
    assert [line.split()[0] for line in lines[:-1]] == ["apt-get"] * (2 if installed else 1)


def test_make_test_runs_every_test_and_every_check() -> None:
    recipes = dict(re.findall(r"^(\w+):.*\n((?:\t.*\n)*)", MAKEFILE, re.MULTILINE))
    assert re.search(r"^test: check ", MAKEFILE, re.MULTILINE)
    assert '-m "not processes"' in recipes["test"]
    assert "-m processes" in recipes["test"]
    for tool in ("ruff check", "ruff format --check", "mypy", "lint-imports"):
        assert f"$(BIN)/{tool}" in recipes["check"]
        assert f"entry: .venv/bin/{tool}" in (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so there is no list of tracked files")
    ran = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in ran.stdout.split("\0") if name and (ROOT / name).is_file()]


# In pieces, so that this file does not hold what it looks for.
FORBIDDEN = ["/wo" + "rk/", "/tmp/" + "venv", ".libra" + "ry", "/ro" + "ot/", "bash_" + "jobs", "/opt/" + "wheels"]


def test_no_path_of_one_machine_is_tracked() -> None:
    found = []
    for path in tracked_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {part}" for part in FORBIDDEN if part in text]
    assert not found


def test_nothing_is_left_undone_in_the_sources() -> None:
    words = ["NotImplemented" + "Error", "TO" + "DO", "FIX" + "ME", "pragma: no " + "cover"]
    found = []
    for path in tracked_files():
        if path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            found += [f"{path.relative_to(ROOT)}: {word}" for word in words if word in text]
    assert not found
