"""The examples of docs/layouts.md run on as many ranks as their headings say and print what is shown.

`python -m tests.torch.test_layouts_page` runs them and writes what they print, and the registry's table, into the page.
"""

import contextlib
import functools
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ranks import on_ranks

from shardproof.audit.layouts import LAYOUTS, QUICK

pytestmark = pytest.mark.processes

START = 'dist.init_process_group("gloo")\n'
"""What the page's ranks begin with; the tests' ranks have begun already."""

REGISTRY = re.compile(r"(?<=<!-- registry -->\n).*?(?=<!-- end of registry -->)", re.DOTALL)

PAGE = Path(__file__).parents[2] / "docs" / "layouts.md"
SECTION = re.compile(
    r"^## (?P<title>.+?), (?P<ranks>\d) ranks(?: \(rank (?P<shown>\d) shown\))?$"
    r"(?P<text>.+?)```python\n(?P<code>.+?)```\n(?:\n```text\n(?P<printed>.*?)```\n)?",
    re.MULTILINE | re.DOTALL,
)


def page():
    return PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


def prelude():
    return re.search(r"```python\n(.+?)```", page(), re.DOTALL).group(1)


def table():
    """The registry's layouts as a table of the page."""
    rows = [
        f"| {layout.name} | {layout.world_size} | {' x '.join(layout.axes) or 'none'} | "
        f"{'q' if layout.name in QUICK else ''} | {layout.title} |\n"
        for layout in LAYOUTS.values()
    ]
    return "".join(["| layout | ranks | axes | quick | what |\n", "|---|---|---|---|---|\n", *rows])


def ran(rank, code):
    """What a rank prints when it runs the code, and the norm that it gets."""
    assert code.count(START) == 1
    code = code.replace(START, "")
    names = {"__name__": "layouts"}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, f"docs/layouts.md on rank {rank}", "exec"), names)
    return out.getvalue(), float(names["norm"])


def run(section):
    """What the shown rank prints, and the norms of all ranks."""
    answers = on_ranks(int(section["ranks"]), ran, prelude() + section["code"])
    return answers[int(section["shown"] or 0)][0], {norm for _, norm in answers}


@functools.cache
def alone():
    """The norm of the page's network in one process, which sees the same batch as each rank."""
    return on_ranks(1, ran, prelude() + "norm = clip_grad_norm_(with_gradients(network()), 1.0)")[0][1]


@pytest.mark.parametrize("section", list(SECTION.finditer(page())), ids=lambda section: section["title"])
def test_an_example_prints_what_is_shown(section):
    """The description of the shown rank, letter by letter; and one norm on all ranks, that of training alone."""
    printed, norms = run(section)
    assert printed == section["printed"]
    assert len(norms) == 1
    if "network()" in section["code"]:
        # Ranks add up float32 gradients in another order: a few units in the last place of values near their norm.
        assert norms.pop() == pytest.approx(alone(), rel=1e-5)


def test_every_example_is_run():
    """One section for each heading of the page, and as many as there are layouts."""
    headings = re.findall(r"^## ", page(), re.MULTILINE)
    assert len(headings) - 1 == len(list(SECTION.finditer(page()))) == 12, "all but the registry's"


def test_the_registrys_table_is_that_of_the_code():
    """Name, ranks, axes and title of every layout."""
    assert REGISTRY.search(page())[0] == table()


def test_an_example_runs_by_the_command_that_the_page_shows(tmp_path):
    """The prelude and the first example as a file of their own, started by torchrun."""
    first = next(SECTION.finditer(page()))
    last = "\ndist.destroy_process_group()\n"
    assert f"`{last.strip()}` at its end" in page()
    (tmp_path / "example.py").write_text(prelude() + "\n" + first["code"] + last, encoding="utf-8")
    assert f"torchrun --standalone --nproc-per-node {first['ranks']} example.py" in page()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", first["ranks"]]
    for _ in range(5):
        done = subprocess.run(
            [*command, "example.py"],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        # torch 2.13's own end of a DDP script over gloo: 2 of 7 runs without any shardproof aborted like that.
        if done.returncode == 0 or "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    for line in first["printed"].splitlines():
        assert line in done.stdout


if __name__ == "__main__":

    def filled(section):
        whole = re.sub(r"\n```text\n.*?```\n", "", section[0], flags=re.DOTALL)
        return f"{whole}\n```text\n{run(section)[0]}```\n"

    PAGE.write_text(REGISTRY.sub(lambda old: table(), SECTION.sub(filled, page())), encoding="utf-8")
