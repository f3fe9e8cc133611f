"""Pages that hold are found to hold, and what the verdict says of them is right."""

from __future__ import annotations

import json
import platform

import pytest
from tests.failures.pages import CHECKS, CONTRACT, SEEDS, needs_seed, page, source

from shardproof.failures import record_text, verify_page, write_record
from shardproof.isolation import Limits
from shardproof.records.page import PageVerdict

pytestmark = pytest.mark.processes
SHORT = Limits(wall_s=60.0, cpu_s=5)


@pytest.fixture
def verify(tmp_path):
    def run(text: str, **options):
        path = tmp_path / "page.txt"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return verify_page(path, **{"limits": SHORT, **options})

    return run


@needs_seed
def test_the_published_page_holds():
    """14 of 14 observations agree, both digests match, and our repair passes all 7 checks."""
    verdict = verify_page(next(SEEDS.glob("*.txt")))
    assert (verdict.verdict, verdict.agreeing, verdict.observations) == ("held", 14, 14)
    assert all(one.digest.agrees and one.exit_code.agrees for one in verdict.implementations)
    assert all(one.differences == one.unclear == () for one in verdict.implementations)
    assert verdict.repair.status == "passes"
    assert [check.passed for check in verdict.repair.checks] == [True] * 7
    assert verdict.case_digest == "recorded, unchecked"
    assert [check.actual for check in verdict.repair.checks][:2] == [
        "[[1.2, 0.0], [0.0, 1.6]]",
        "[[1.2], [1.6, 0.0]]",
    ]


def test_a_page_of_the_tests_holds(verify):
    """Another number of checks, other values, another id."""
    verdict = verify(page())
    assert (verdict.verdict, verdict.agreeing, verdict.observations) == ("held", 8, 8)
    assert verdict.repair.status == "passes"
    assert verdict.repair.detail == "shardproof.clip.clip_shards passes 4 of 4 checks of the page"


def test_the_record_survives_its_round_trip(verify, tmp_path):
    """Written whole, in ASCII, closed, and read back equal."""
    verdict = verify(page(title="Ein Titel mit Umlauten: äöü"))
    path = tmp_path / "new" / "record.json"
    write_record(path, record_text(verdict))
    assert path.read_bytes().isascii()
    assert PageVerdict.model_validate_json(path.read_text()) == verdict
    assert [entry.name for entry in path.parent.iterdir()] == ["record.json"]
    with pytest.raises(ValueError, match="Extra inputs"):
        PageVerdict.model_validate(json.loads(path.read_text()) | {"more": 1})


def test_another_contract_is_neither_a_pass_nor_a_failure(verify):
    """We have no repair for it, and say so; the page itself still holds."""
    verdict = verify(page(contract="Return the largest value."))
    assert verdict.verdict == "held"
    assert verdict.repair.status == "no repair of ours for this contract"
    assert verdict.repair.checks == ()


def test_the_contract_is_ours_however_it_is_wrapped(verify):
    """White space is layout, not contract."""
    wrapped = CONTRACT.replace(" ", "\n  ", 3)
    assert verify(page(contract=wrapped)).repair.status == "passes"


def test_values_of_every_kind_agree_with_themselves(verify):
    """NaN, infinities, nested lists, null, text, and floats that are ints by value."""
    checks = (
        "check('é 🙂', [1e999, -1e999, 1e999 - 1e999, -0.0, 1.0, 1], {'b': None, 'a': ['\\ud800', '`x`', '\\t']})\n"
        "check('same', {'a': 1.0, 'b': 2}, {'b': 2, 'a': 1})\n"
    )
    program = source(checks=checks).replace(", ensure_ascii=False", "")
    verdict = verify(page(program, program, checks=2, contract="Another."))
    assert (verdict.verdict, verdict.agreeing) == ("held", 4), verdict


def test_a_source_that_no_longer_matches_is_still_run(verify):
    """The verdict is a mismatch, and the record says what the changed source does."""
    changed = page().replace("min(1, limit / norm)", "min(2, limit / norm)")
    verdict = verify(changed)
    assert verdict.verdict == "mismatch"
    first, second = verdict.implementations
    assert not first.digest.agrees
    assert second.digest.agrees
    assert any("'below the limit': outcome: recorded Passed, observed Failed" in line for line in first.differences)
    assert second.differences == ()


def test_a_newer_python_that_this_one_cannot_read_is_not_a_violation(verify):
    """A source that needs another Python ends in `could not tell`, with both versions named."""
    program = "import a_module_of_the_future\n"
    rows = ["a\t`1`\t`1`\tPassed"]
    text = page(program, program, rows=(rows, rows), codes=(0, 0), checks=1, contract="x", python="3.99.1")
    verdict = verify(text)
    assert verdict.verdict == "could not tell"
    assert "recorded with Python 3.99.1" in verdict.implementations[0].unclear[0]
    assert [row.agrees for one in verdict.implementations for row in one.observations] == [None, None]
    assert verify(text.replace("3.99.1", "3.5.1")).verdict == "violated"


def test_another_python_is_noted(verify):
    """Floats may differ between versions; the record says which two were involved."""
    same = ".".join(platform.python_version_tuple()[:2]) + ".99"
    assert verify(page(python=same)).notes == ()
    assert any(platform.python_version() in note for note in verify(page(python="2.7.18")).notes)


def test_our_repair_answers_in_this_process(verify):
    """A page whose `solve` is right and whose checks are wrong shows that the comparison is ours."""
    wrong = CHECKS.replace("[[N], [N]])\n", "[[N], [N + 1]])\n")
    verdict = verify(page(source(checks=wrong), source(checks=wrong)))
    assert verdict.verdict == "violated"
    assert verdict.repair.status == "fails"
    assert [check.label for check in verdict.repair.checks if not check.passed] == ["below the limit"]


@pytest.mark.parametrize(
    "checks",
    [
        CHECKS + "check('sum', sum(solve([[3]], 1), []), [1.0])\n",
        CHECKS + "check('one argument', solve([[3]]) if 0 else [1], [1])\n",
    ],
)
def test_checks_that_are_not_of_our_contract_are_no_pass(verify, checks):
    """What cannot be read from the source is `could not tell`, whatever else agrees."""
    program = source(checks=checks)
    verdict = verify(page(program, program, checks=5))
    assert verdict.agreeing == 10
    assert verdict.repair.status == "could not tell"
    assert verdict.verdict == "could not tell"


def test_a_source_cannot_ask_us_easier_checks_than_it_prints(verify):
    """The extracted checks must be those of the table."""
    hidden = source(checks=CHECKS).replace("check('no shards'", "if type(solve([], 1)) is list: check('no shards'")
    verdict = verify(page(hidden, hidden, checks=4))
    assert verdict.repair.status == "could not tell"
    assert "the page's table" in verdict.repair.detail
