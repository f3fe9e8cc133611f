"""The first mechanism is the published page's: its checks for every n, and what its programs give, by our own code."""

from __future__ import annotations

import ast
import json

import pytest
from tests.failures.pages import SEEDS, needs_seed

from shardproof.failures.exact_json import written
from shardproof.failures.mechanism import CATALOGUE, checks_of, function_of, load_mechanism
from shardproof.failures.page import Page, parse_page
from shardproof.failures.roles import observe

FOLDER = CATALOGUE / "norm-scope" / "local-shard-clip"
# Above about here correct repairs part from the page's formulas in the last bit, so variants stay below.
LAST = 2276


@pytest.fixture(scope="module")
def page() -> Page:
    return parse_page(next(SEEDS.glob("*.txt")).read_bytes())


def asked_by_page(source: bytes, n: int) -> list[tuple[str, tuple, object]]:
    """The page's check(...) lines at N=n, with solve in place of recording its arguments."""
    tree = ast.parse(source)
    calls = [node for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    tree.body = [node for node in calls if getattr(node.value.func, "id", "") == "check"]
    found: list[tuple[str, tuple, object]] = []
    space = {"N": n, "solve": lambda *given: given, "check": lambda *row: found.append(row)}
    exec(compile(tree, "page", "exec"), space)
    return found


@needs_seed
def test_the_seven_checks_are_those_of_the_page_for_every_n(page):
    """Labels, arguments and expected values, of the same kinds, from 1 to where the page's formulas hold."""
    for n in [*range(1, 301), *range(301, LAST + 1, 25), LAST]:
        ours = [(check.label, check.arguments, check.expected) for check in checks_of(FOLDER / "checks.py", n)]
        for implementation in page.implementations:
            theirs = asked_by_page(implementation.source, n)
            assert len(ours) == len(theirs) == 7
            assert ours == theirs
            assert [written(list(row[1:])) for row in ours] == [written(list(row[1:])) for row in theirs]


@needs_seed
def test_our_programs_give_what_the_page_recorded(page):
    """The naive and the unsuccessful program are ours, their results at N=1 the page's."""
    for role, implementation in zip(("failing", "unsuccessful"), page.implementations, strict=True):
        rows = observe(function_of(FOLDER / f"{role}.py", "solve"), checks_of(FOLDER / "checks.py", 1))
        recorded = [(row.label, json.loads(row.actual), row.outcome == "Passed") for row in implementation.rows]
        assert [(row.label, row.actual, row.passed) for row in rows] == recorded
        solve = implementation.source.decode().split("def solve")[1].split("def check")[0]
        assert solve.strip() not in (FOLDER / f"{role}.py").read_text()


@needs_seed
def test_the_contract_is_the_pages(page):
    """The text of the contract is the published one, to the character."""
    assert load_mechanism(FOLDER).contract.says.text == page.facts.contract
