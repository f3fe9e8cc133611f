"""Rendering: the same bytes everywhere, one self-contained program, one report that the judge reads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from shardproof.errors import InvalidValueError
from shardproof.failures.judge import read_report
from shardproof.failures.mechanism import CATALOGUE, Check, checks_of
from shardproof.failures.purity import PURE
from shardproof.failures.render import calls_of, render, sha256
from shardproof.failures.syntax import Parts, parts_of

FOLDER = CATALOGUE / "norm-scope" / "local-shard-clip"
# Over the exact bytes; a change of the template or of the mechanism changes it, and is made on purpose.
PINNED = {
    "failing": "7644a6d37c7bd44716032ab6e183340a47954c7c24a02b295e0d92cd46d95c0e",
    "unsuccessful": "cd25befee296ae3c3f799ccff6d66b4b51d5c65f07ad5716db0f08914843a6a2",
}
RAISING = Parts(
    (), "def solve(value):\n    if value < 0:\n        raise ValueError(value)\n    return value, {'inf': 1e999}"
)
CHECKS = (
    Check("a value", (2,), [2, {"inf": float("inf")}]),
    Check("below zero", (-1,), {"raises": "ValueError"}),
    Check('a "quoted" wrong one', (3,), [3, {"inf": float("nan")}]),
)


def program(role: str, n: int = 1) -> bytes:
    return render(parts_of((FOLDER / f"{role}.py").read_text()), n, calls_of(checks_of(FOLDER / "checks.py", n)))


@pytest.mark.parametrize("role", PINNED)
def test_the_bytes_are_pinned(role):
    """One digest for every platform and Python version that runs the tests."""
    assert sha256(program(role)) == PINNED[role]


def test_a_program_is_of_the_published_form():
    """Docstring, N, solve, one check a line with literals only, one JSON object, and only imports that compute."""
    text = program("failing", 3).decode("ascii")
    tree = ast.parse(text)
    assert text.startswith('"""Failure Map reference implementation. Python standard library only."""\nimport json\n')
    assert "\nN = 3\nobservations = []\n" in text
    assert 'check("norm spans two shards", ([[9, 0], [0, 12]], 6), [[3.6, 0], [0, 4.8]])\n' in text
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= PURE | {"json"}
    assert "\r" not in text


@pytest.mark.processes
def test_a_program_says_what_it_saw():
    """Raised exceptions, inf and nan, and a quoted label arrive; the judge reads the same outcome."""
    source = render(RAISING, 1, calls_of(CHECKS))
    done = subprocess.run([sys.executable, "-I", "-c", source.decode()], capture_output=True, check=False)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert [row["actual"] for row in document["observations"]] == [
        [2, {"inf": "inf"}],
        {"raises": "ValueError"},
        [3, {"inf": "inf"}],
    ]
    assert [row.passed for row in read_report(done.stdout, CHECKS)] == [True, True, False]
    assert document["passed"] is False


FORGED = {
    "a flag": ('"passed": false}, ', '"passed": true}, '),
    "the total": ('"passed": false}\n', '"passed": true}\n'),
    "an expected value": ('"expected": 1', '"expected": 2'),
    "another check": ('"check": "one"', '"check": "two"'),
    "NaN as a number": ('"actual": 3', '"actual": NaN'),
    "a check left out": ('{"check": "one", "actual": 3, "expected": 1, "passed": false}, ', ""),
    "a second document": ('"passed": false}\n', '"passed": false}\n{}'),
    "1 for true": ('"passed": true}], ', '"passed": 1}], '),
    "an extra key": ('{"check": "one"', '{"x": 0, "check": "one"'),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_report_is_not_believed(what):
    """Each contradiction between a report and the checks that were asked is refused."""
    checks = (Check("one", (0,), 1), Check("last", (0,), 2))
    rows = '{"check": "one", "actual": 3, "expected": 1, "passed": false}, '
    rows += '{"check": "last", "actual": 2, "expected": 2, "passed": true}'
    report = f'{{"observations": [{rows}], "passed": false}}\n'
    assert [row.passed for row in read_report(report.encode(), checks)] == [False, True]
    before, after = FORGED[what]
    assert before in report
    with pytest.raises(InvalidValueError, match="Expected"):
        read_report(report.replace(before, after, 1).encode(), checks)


def test_imports_are_hoisted_and_the_docstring_is_not():
    """What is cut from an implementation, and what stays as written."""
    parts = parts_of(
        '"""Doc."""\n\nimport math\nfrom fractions import (\n    Fraction,\n)\n\nX = 1\n\n\ndef solve(a):\n    return a'
    )
    assert parts.imports == ("import math", "from fractions import (\n    Fraction,\n)")
    assert parts.body == "X = 1\n\n\ndef solve(a):\n    return a"
