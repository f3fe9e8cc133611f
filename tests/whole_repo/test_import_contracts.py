"""The import contracts hold, and a planted violation of each is caught."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLANTED = {
    "rooms are stacked": ("layout/mesh.py", "import shardproof.clip"),
    "the library never reaches the map or the audit": ("files/npy_header.py", "import shardproof.isolation"),
    "report reads records": ("report/__init__.py", "import shardproof.clip"),
    "sums and layout stand on the standard library": ("sums/grid.py", "import numpy"),
    "frameworks only in their own rooms": ("cli/clip.py", "import torch"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    return subprocess.run(
        [command, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def contract_names() -> list[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return [line.split('"')[1] for line in text.split("[[tool.importlinter.contracts]]\nname = ")[1:]]


@pytest.mark.processes
def test_the_contracts_hold() -> None:
    ran = lint(ROOT)
    assert ran.returncode == 0, ran.stdout
    assert f"{len(contract_names())} kept, 0 broken" in ran.stdout


def test_a_violation_is_planted_for_each_contract() -> None:
    assert len(contract_names()) == len(PLANTED)
    for name in contract_names():
        assert any(name.startswith(planted) for planted in PLANTED), name


@pytest.mark.processes
@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_violation_is_caught(contract: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    file, line = PLANTED[contract]
    with (tmp_path / "src" / "shardproof" / file).open("a", encoding="utf-8") as stream:
        stream.write(f"\n{line}\n")
    ran = lint(tmp_path)
    assert ran.returncode == 1
    broken = [line for line in ran.stdout.splitlines() if line.endswith("BROKEN")]
    assert any(line.startswith(contract) for line in broken), ran.stdout
