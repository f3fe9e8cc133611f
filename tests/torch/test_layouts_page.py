"""The examples of docs/layouts.md run on as many ranks as their headings say and print what is shown.

`python -m tests.torch.test_layouts_page` runs them and writes what they print into the page.
"""

import contextlib
import functools
import io
import re
from pathlib import Path

import pytest
from tests.ranks import on_ranks

pytestmark = pytest.mark.processes

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


def ran(rank, code):
    """What a rank prints when it runs the code, and the norm that it gets."""
    names = {"rank": rank, "__name__": "layouts"}
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
    assert len(headings) == len(list(SECTION.finditer(page()))) == 12


if __name__ == "__main__":

    def filled(section):
        whole = re.sub(r"\n```text\n.*?```\n", "", section[0], flags=re.DOTALL)
        return f"{whole}\n```text\n{run(section)[0]}```\n"

    PAGE.write_text(SECTION.sub(filled, page()), encoding="utf-8")
