"""Imported pages: sources to the byte, arguments from the page's own source, digests checked, a repair held back."""

from __future__ import annotations

import pytest
from tests.failures.pages import CHECKS, NOTHING, SEEDS, needs_seed, page, source

from shardproof.errors import InvalidValueError
from shardproof.failures.cases import read_registry
from shardproof.failures.imported import PageDigestError, PageUnclearError, import_page
from shardproof.failures.mechanism import CATALOGUE, checks_of
from shardproof.failures.values import plain, same
from shardproof.records.map_share import ImportedCase

pytestmark = pytest.mark.processes


def test_a_page_becomes_a_case():
    case = import_page(page().encode(), ())
    assert (case.id, case.repair, case.known_as) == ("FA-00042", "held back", None)
    assert [program.source for program in case.programs] == [source(), source(NOTHING)]
    assert [check.label for check in case.checks] == ["two shards", "below the limit", "zero limit", "no shards"]
    assert case.checks[0].arguments == ([[6, 0], [0, 8]], 4)
    assert [row.passed for row in case.programs[0].observations] == [False, True, True, True]
    assert ImportedCase.model_validate_json(case.model_dump_json()) == case


@needs_seed
def test_the_published_page_is_our_first_case():
    data = next(SEEDS.glob("*.txt")).read_bytes()
    case = import_page(data, read_registry())
    assert (case.id, case.known_as) == ("FA-99266", "SP-00001")
    ours = checks_of(CATALOGUE / "norm-scope" / "local-shard-clip" / "checks.py", 1)
    assert [check.label for check in case.checks] == [check.label for check in ours]
    for theirs, check in zip(case.checks, ours, strict=True):
        assert same(list(theirs.arguments), plain(check.arguments))
        assert same(theirs.expected, plain(check.expected))


def test_a_source_that_was_changed_is_a_mismatch():
    with pytest.raises(PageDigestError):
        import_page(page().replace("norm = sum", "norm  = sum").encode(), ())


def test_outcomes_are_derived_not_believed():
    rows = page().split("Outcome\n")[1].split("\n\nSHA-256")[0].split("\n")
    lied = [row.replace("Failed", "Passed") for row in rows]
    case = import_page(page(rows=(lied, None)).encode(), ())
    assert case.programs[0].observations[0].passed is False


@pytest.mark.parametrize(
    "checks",
    [
        CHECKS.replace("[[N], [N]], 2*N)", "[[N], [N]], 3*N)", 1),
        CHECKS + "raise ValueError\n1/0\n",
        CHECKS.replace("check('no shards', solve([], N), [])\n", "check('no shards', [], [])\n"),
    ],
)
def test_checks_that_cannot_be_had_are_no_case(checks):
    """The second source asks others, breaks, or does not ask solve."""
    whole = page(second=source(NOTHING, CHECKS))
    changed = page(second=source(NOTHING, checks), rows=(None, _rows(whole)), codes=(1, 1))
    with pytest.raises(PageUnclearError):
        import_page(changed.encode(), ())


def test_a_table_that_is_not_the_sources(tmp_path):
    rows = _rows(page())
    with pytest.raises(PageUnclearError, match="table"):
        import_page(page(rows=(None, [rows[1], rows[0], *rows[2:]])).encode(), ())


@pytest.mark.parametrize("data", [b"", b"no page", page().replace("ROOT CAUSE", "ROOT").encode()])
def test_what_is_no_page(data):
    with pytest.raises(InvalidValueError):
        import_page(data, ())


def _rows(text):
    return text.split("Outcome\n")[2].split("\n\nSHA-256")[0].split("\n")
