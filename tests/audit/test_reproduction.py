"""Reproductions: files without shardproof that exit 1 on what failed, and 0 with a clip that is right."""

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from tests.audit.failing_cell import stored_cell

import shardproof.audit.subjects
from shardproof.audit.reproduction import reproduction
from shardproof.audit.reproduction_cell import shown_of
from shardproof.audit.reproduction_source import inlined
from shardproof.errors import InvalidValueError
from shardproof.records.audit import SubjectPlan

OURS = Path(shardproof.audit.subjects.__file__).with_name("torch_clips.py")
RIGHT = SubjectPlan(name="shardproof", spec=f"{OURS}:shardproof", file=str(OURS))
LINES = 145
"""A file is to be read from top to bottom; the longest of these have four meshes, or a long subject."""


def ran(path, *arguments):
    """How the file ends, away from the checkout."""
    words = [sys.executable, str(path), *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=180, check=False, cwd=path.parent)


def modules_of(text):
    nodes = list(ast.walk(ast.parse(text)))
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return {name.partition(".")[0] for name in named + [n.module for n in nodes if isinstance(n, ast.ImportFrom)]}


@pytest.mark.processes
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("spec", "layout"),
    [
        ("torch", "hand-sharded"),
        ("torch", "sp"),
        ("torch", "fsdp2-tp-meshes"),
        ("torch", "fsdp1-flat"),
        ("wrong.py:copies_counted_each_time", "ddp"),
        ("wrong.py:sum_of_norms", "fsdp2"),
        ("wrong.py:copies_drift", "ddp"),
        ("rude.py:skips_a_collective", "ddp"),
    ],
)
def test_a_reproduction_exits_1_and_with_a_right_clip_0(subjects, tmp_path, spec, layout):
    cell = stored_cell(tmp_path / "run", f"{subjects}/{spec}" if ".py" in spec else spec, layout)
    shown = shown_of(tmp_path / "run", cell)
    path, other = tmp_path / "shown.py", tmp_path / "right.py"
    path.write_text(reproduction(shown, path.name))
    other.write_text(reproduction(dataclasses.replace(shown, subject=RIGHT), other.name))

    failed, right = ran(path), ran(other)

    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "WRONG" in failed.stdout
    assert right.returncode == 0, right.stdout + right.stderr
    assert modules_of(path.read_text()) <= set(sys.stdlib_module_names) | {"torch"}
    assert len(path.read_text().splitlines()) <= LINES


@pytest.mark.processes
def test_a_file_that_does_not_reach_the_call_says_nothing(tmp_path):
    cell = stored_cell(tmp_path / "run", "torch", "hand-sharded")
    broken = tmp_path / "broken.py"
    broken.write_text("import a_package_that_is_not_there\nclip = a_package_that_is_not_there.clip\n")
    subject = SubjectPlan(name="broken", spec=f"{broken}:clip", file=str(broken))
    path = tmp_path / "shown.py"
    path.write_text(reproduction(dataclasses.replace(shown_of(tmp_path / "run", cell), subject=subject), path.name))

    ended = ran(path)

    assert ended.returncode == 3, ended.stdout + ended.stderr


IMPORTED = """import torch, torch.distributed as dist
from torch import distributed as same
import math as mp

LIMIT = 2.0

class Made:
    capabilities = property(lambda self: {})

    def build(self, ctx):
        self.group = ctx.group("tp")

    def clip(self, params, max_norm):
        return torch.nn.utils.clip_grad_norm_(params, max_norm)

made = Made()

def constant(params, max_norm):
    assert LIMIT == 2.0
    return torch.nn.utils.clip_grad_norm_(params, max_norm)

def alias(params, max_norm):
    assert mp.sqrt(4) == 2
    return torch.nn.utils.clip_grad_norm_(params, max_norm)

def usual(params, max_norm):
    assert same is dist and dist.get_world_size() == 2
    return torch.nn.utils.clip_grad_norm_(params, max_norm)

def norm(params, max_norm, ctx):
    assert ctx.names and ctx.placements and ctx.owned == {} and ctx.tied == ()
    return torch.nn.utils.clip_grad_norm_(params, max_norm)
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "inside"),
    [("made", False), ("norm", False), ("constant", False), ("alias", False), ("Made", True), ("usual", True)],
)
def test_an_object_and_a_name_that_the_file_needs_are_imported(tmp_path, name, inside):
    source = tmp_path / "mine.py"
    source.write_text(IMPORTED)
    cell = stored_cell(tmp_path / "run", f"{source}:{name}", "hand-sharded")
    path = tmp_path / "shown.py"
    path.write_text(reproduction(shown_of(tmp_path / "run", cell), path.name))

    ended = ran(path)

    assert (str(source) not in path.read_text()) == inside
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "WRONG: norm" in ended.stdout


SOURCE = """import math
import torch
from pathlib import Path
HERE = Path(__file__)
LIMIT = 2.0

def part(values: list) -> float:
    return math.hypot(*values)

def clip(params: list, max_norm: float = LIMIT):
    return part([float(each) for each in params])

def beside(params, max_norm):
    return HERE

@torch.no_grad()
def decorated(params, max_norm):
    return 1.0

def lost(params, max_norm):
    return nowhere(params)
"""


def test_a_function_is_taken_out_with_what_it_uses():
    found = inlined(SOURCE, "clip")

    assert found.imports == ("import math",)
    assert "LIMIT = 2.0" in found.code
    assert "HERE" not in found.code
    space = {}
    exec("\n".join([*found.imports, found.code]), space)
    assert space["clip"]([3.0, 4.0]) == 5.0


@pytest.mark.parametrize("name", ["beside", "decorated", "lost", "LIMIT", "missing"])
def test_what_cannot_stand_elsewhere_is_not_taken_out(name):
    assert inlined(SOURCE, name) is None


def test_a_module_that_lies_beside_the_file_is_not_there_elsewhere(tmp_path):
    source = "import mine\ndef clip(params, max_norm): return mine.clip(params)"
    assert inlined(source, "clip", tmp_path) is not None
    (tmp_path / "mine.py").touch()
    assert inlined(source, "clip", tmp_path) is None


def test_subjects_of_other_frameworks_are_refused(tmp_path):
    from shardproof.audit.layouts import LAYOUTS
    from shardproof.audit.reproduction import Shown
    from shardproof.audit.run import layout_plan

    planned = layout_plan(LAYOUTS["ddp"])
    subject = SubjectPlan(name="optax", spec="optax", framework="jax")
    shown = Shown(subject, LAYOUTS["ddp"], planned, planned.fixtures[0], frozenset({"norm.global"}))
    with pytest.raises(InvalidValueError, match="subject of torch"):
        reproduction(shown)
