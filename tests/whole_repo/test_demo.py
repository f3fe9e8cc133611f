"""`make demo` prints the matrix that the README shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def shown_in_readme() -> list[str]:
    """The lines of the README's block, without those that only say that something is left out."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"`make demo` prints.+?```\n(.+?)```", text, re.DOTALL)
    assert block is not None
    return [line for line in block[1].splitlines() if line != "..."]


@pytest.mark.processes
def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the demo audits torch, which is not installed")
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"the README shows the matrix of torch 2.13, and this is {torch.__version__}")
    seeds = ROOT.parent / "shared" / "seeds"
    ran = subprocess.run(
        [sys.executable, "-m", "shardproof.cli.demo", str(seeds)],
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    printed = ran.stdout.splitlines()
    for line in shown_in_readme():
        if line.startswith("FA-") and not seeds.exists():
            continue
        start = line.removesuffix("...").rstrip()
        assert any(each.startswith(start) for each in printed), f"not printed: {line}\n{ran.stdout}"
    assert json.loads((tmp_path / "build" / "demo" / "report.json").read_text(encoding="utf-8"))
    assert (tmp_path / "build" / "demo" / "report.html").read_text(encoding="utf-8").startswith("<!")
