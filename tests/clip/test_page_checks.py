"""The 7 checks of the published page (FA-99266), with the expected values as printed there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shardproof import clip_shards

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"

CHECKS = [
    ("norm spans two shards", [[3, 0], [0, 4]], 2, "[[1.2, 0], [0, 1.6]]"),
    ("uneven shard widths", [[3], [4, 0]], 2, "[[1.2], [1.6, 0]]"),
    ("below limit remains unchanged", [[1], [1]], 2, "[[1], [1]]"),
    ("single shard same global rule", [[3, 4]], 3, "[[1.8, 2.4]]"),
    ("zero norm", [[0, 0], []], 1, "[[0, 0], []]"),
    ("zero limit", [[1]], 0, "[[0]]"),
    ("empty shards", [], 1, "[]"),
]


@pytest.mark.parametrize(("shards", "limit", "printed"), [c[1:] for c in CHECKS], ids=[c[0] for c in CHECKS])
def test_a_check_of_the_page_holds(shards: list[list[int]], limit: int, printed: str) -> None:
    assert clip_shards(shards, limit) == json.loads(printed)


@pytest.mark.parametrize("scale", [2, 3, 7, 1000])
def test_the_checks_hold_for_the_other_variants_of_n(scale: int) -> None:
    n = scale
    assert clip_shards([[3 * n, 0], [0, 4 * n]], 2 * n) == [[round(1.2 * n, 12), 0], [0, round(1.6 * n, 12)]]
    assert clip_shards([[3 * n, 4 * n]], 3 * n) == [[round(1.8 * n, 12), round(2.4 * n, 12)]]


def test_ints_that_are_not_scaled_stay_ints() -> None:
    unscaled = clip_shards([[1, 0], [], [1]], 2)
    assert json.dumps(unscaled) == "[[1, 0], [], [1]]"
    assert json.dumps(clip_shards([[0, 0], []], 1)) == "[[0, 0], []]"


def test_the_checks_here_are_those_of_the_page() -> None:
    pages = sorted(SEEDS.glob("*.txt"))
    if not pages:
        pytest.skip("the published page is not beside this checkout (../shared/seeds)")
    text = pages[0].read_text(encoding="utf-8")
    rows = re.findall(r"^(.+)\t`.+`\t`(.+)`\t(?:Passed|Failed)$", text, re.MULTILINE)
    here = [(label, printed) for label, _, _, printed in CHECKS]
    assert rows == here + here  # the failing source's table, then the unsuccessful one's
    calls = dict(re.findall(r"^check\('(.+?)',solve\((.+?)\),\[", text, re.MULTILINE))
    for label, shards, limit, _ in CHECKS:
        # The page's own expression for the input, with its N = 1 and no builtins.
        assert eval(f"({calls[label]},)", {"__builtins__": {}, "N": 1}) == (shards, limit)
