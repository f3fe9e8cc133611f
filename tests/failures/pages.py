"""Pages of the published form, rendered by the tests from sources of their own."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardproof.failures.ours import CONTRACT

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
needs_seed = pytest.mark.skipif(
    not list(SEEDS.glob("*.txt")), reason="the published page lies in ../shared/seeds, which is not here"
)

HEAD = '''"""A page of the tests. Python standard library only."""
import json

N = 2
observations = []
'''
TAIL = """def check(label, actual, expected):
    observations.append({"check": label, "actual": actual, "expected": expected, "passed": actual == expected})
CHECKS
print(json.dumps({"observations": observations, "passed": all(x["passed"] for x in observations)}, ensure_ascii=False))
raise SystemExit(0 if all(x["passed"] for x in observations) else 1)
"""
LOCAL = """def solve(shards, limit):
    out = []
    for shard in shards:
        norm = sum(v * v for v in shard) ** 0.5
        scale = min(1, limit / norm) if norm else 1
        out.append([round(v * scale, 12) for v in shard])
    return out
"""
NOTHING = """def solve(shards, limit):
    return shards
"""
CHECKS = """check('two shards', solve([[3*N, 0], [0, 4*N]], 2*N), [[round(1.2*N, 12), 0], [0, round(1.6*N, 12)]])
check('below the limit', solve([[N], [N]], 2*N), [[N], [N]])
check('zero limit', solve([[N]], 0), [[0]])
check('no shards', solve([], N), [])
"""


def source(solve: str = LOCAL, checks: str = CHECKS) -> str:
    """A program of the published form."""
    return HEAD + solve + TAIL.replace("CHECKS\n", checks)


@functools.cache
def observed(program: str) -> tuple[list[dict], int]:
    """What a trusted program of the tests prints, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-I", "-X", "utf8", "-c", program], capture_output=True, check=False, cwd=os.path.sep
    )
    return json.loads(done.stdout)["observations"], done.returncode


def rows_of(observations: list[dict]) -> list[str]:
    """The table's lines for observations, as the published pages print them."""
    return [
        "\t".join(
            [
                entry["check"],
                f"`{value_text(entry['actual'])}`",
                f"`{value_text(entry['expected'])}`",
                "Passed" if entry["passed"] else "Failed",
            ]
        )
        for entry in observations
    ]


def value_text(value: object) -> str:
    """JSON as the pages print it; a lone surrogate, which no file can hold, stays an escape."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def section(number: int, name: str, program: str, rows: list[str] | None, code: int | str | None) -> str:
    """One implementation of a page; rows and exit code are observed where they are not given."""
    if rows is None or code is None:
        entries, seen = observed(program)
        rows, code = rows if rows is not None else rows_of(entries), seen if code is None else code
    digest = hashlib.sha256(program.encode("utf-8", "surrogateescape")).hexdigest()
    table = "\n".join(["Boundary fixture\tActual\tExpected\tOutcome", *rows])
    return f"{number} / {name}\n\nExit {code}\n\n{program.removesuffix(chr(10))}\n\n{table}\n\nSHA-256 / {digest}\n\n"


def page(
    first: str | None = None,
    second: str | None = None,
    *,
    rows: tuple[list[str] | None, list[str] | None] = (None, None),
    codes: tuple[int | str | None, int | str | None] = (None, None),
    checks: int = 4,
    contract: str = CONTRACT,
    title: str = "Shards are clipped alone",
    python: str = "3.11.1",
) -> str:
    """A whole page; every argument has a default that holds when it is verified."""
    first, second = first or source(), second or source(NOTHING)
    return (
        f"FA-00042 / Sums / and products / Open access\n\n{title} · case 07\n\nOne sentence.\n\n"
        f"Verified by executionVariant 3 · {checks} checks per implementationDownload source bundle ↓JSON ↗\n\n"
        "ROOT CAUSE\n\nThe cause.\n\nTHE FAILURE\n\nThe failure.\n\nStill the failure.\n\n"
        f"Unsuccessful approach: Doing nothing.\n\nCase contract\n\n{contract}\n\n"
        "Why this case matters\n\nBecause.\n\n"
        + section(1, "The failure", first, rows[0], codes[0])
        + section(2, "The unsuccessful fix", second, rows[1], codes[1])
        + "HELD IN THE MEMBER ARCHIVE\n\nThe repair is held back.\n\nSign in.\n\n"
        "Verification & scope\n\nToy values.\n\n"
        f"Observations recorded using Python {python} at 2026-01-02T03:04:05+00:00.\n\nCase digest / {'ab' * 32}"
    )
