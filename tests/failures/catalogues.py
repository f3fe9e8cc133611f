"""Small catalogues of the tests' own, each in a folder of its own, to break on purpose."""

from __future__ import annotations

import shutil
from pathlib import Path

from shardproof.failures.mechanism import CATALOGUE, members_folder

SLUG = "local-shard-clip"
FAMILY = "norm-scope"


def copy_catalogue(folder: Path) -> tuple[Path, Path]:
    """The seed's mechanism alone, with its contract and its repair, copied: (catalogue, members)."""
    catalogue, members = folder / "catalogue", folder / "members"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CATALOGUE / FAMILY / SLUG, catalogue / FAMILY / SLUG, ignore=ignore)
    shutil.copytree(CATALOGUE / "contracts" / "clip-shards", catalogue / "contracts" / "clip-shards", ignore=ignore)
    repairs = members_folder()
    if repairs is None:
        members.mkdir()
    else:
        shutil.copytree(repairs / SLUG, members / SLUG, ignore=ignore)
    return catalogue, members


def edit(path: Path, before: str, after: str) -> None:
    """Replace `before`, which must be there, in a file of a copy."""
    text = path.read_text(encoding="utf-8")
    assert before in text, before
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
