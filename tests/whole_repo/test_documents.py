"""README, CONTRIBUTING and docs say what is so: commands exist, examples print what they show, rooms are named."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "shardproof"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def rooms() -> list[str]:
    """What lies in the package: folders, and modules that are no detail of Python."""
    folders = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
    return sorted(folders + [path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")])


@pytest.mark.parametrize("room", rooms())
def test_every_room_is_in_the_architecture(room: str) -> None:
    assert f"`shardproof.{room}`" in text_of(ROOT / "docs" / "architecture.md")


def test_the_architecture_names_no_room_that_is_not_there() -> None:
    named = set(re.findall(r"`shardproof\.(\w+)`", text_of(ROOT / "docs" / "architecture.md")))
    assert named == set(rooms())


@pytest.mark.parametrize("room", rooms())
def test_every_room_is_on_the_map_in_the_readme(room: str) -> None:
    if room in ("errors", "records"):
        return  # the map shows where to look first; these two are on the full one
    assert f"`{room}/`" in text_of(ROOT / "README.md") or f"`{room}.py`" in text_of(ROOT / "README.md")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_that_a_document_names_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text_of(path), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", text_of(path)):
        if not link.startswith("https://"):
            assert (path.parent / link).exists(), link


def test_the_example_of_the_readme_prints_what_is_shown() -> None:
    pytest.importorskip("torch", reason="the example uses torch, which is not installed")
    found = re.search(r"```python\n(.+?)```\n\n```text\n(.+?)```", text_of(ROOT / "README.md"), re.DOTALL)
    assert found is not None
    code, shown = found.groups()
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert printed.getvalue() == shown


def test_what_the_readme_says_of_torch_is_so() -> None:
    """The example's comment: torch's norm of [3e25, 4e25] is inf, and its clip zeroes the gradient."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3e25, 4e25])
    assert torch.nn.utils.clip_grad_norm_([weight], 1.0).item() == float("inf")
    assert weight.grad.tolist() == [0.0, 0.0]


@pytest.mark.processes
def test_the_command_of_the_readme_prints_what_is_shown() -> None:
    found = re.search(
        r"^\$ echo '(.+?)' \| shardproof (.+)\n(.+)\n(.+?) +# on standard error$",
        text_of(ROOT / "README.md"),
        re.MULTILINE,
    )
    assert found is not None
    given, arguments, out, err = found.groups()
    ran = subprocess.run(
        [sys.executable, "-m", "shardproof", *arguments.split()],
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ran.stdout.strip(), ran.stderr.strip()) == (out, err)


@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if ">>>" in text_of(path)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_examples_in_documents_run(path: Path) -> None:
    found = doctest.testfile(str(path), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0


def test_contributing_is_short() -> None:
    assert len(text_of(ROOT / "CONTRIBUTING.md").splitlines()) < 60


def test_every_change_note_has_a_kind() -> None:
    notes = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    for note in notes:
        assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md", note.name), note.name
        assert text_of(note).strip()
