"""A page is read to the byte, and what it lacks is named."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.failures.pages import CONTRACT, SEEDS, needs_seed, page, source

from shardproof.errors import InvalidValueError
from shardproof.failures.page import parse_page, read_page

PAGE = page().encode()
SECTIONS = {
    "FA-00042 / Sums / and products / Open access": "ID / family / access",
    " · case 07": "title · case number",
    "Variant 3": "Variant number",
    "ROOT CAUSE": "ROOT CAUSE",
    "THE FAILURE": "THE FAILURE",
    "Unsuccessful approach: ": "Unsuccessful approach:",
    "Case contract": "Case contract",
    "Why this case matters": "Why this case matters",
    "1 / The failure": "1 / The failure",
    "Boundary fixture": "table of 1 / The failure",
    "SHA-256 / ": "SHA-256 of 1 / The failure",
    "2 / The unsuccessful fix": "2 / The unsuccessful fix",
    "HELD IN THE MEMBER ARCHIVE": "HELD IN THE MEMBER ARCHIVE",
    "Verification & scope": "Verification & scope",
    "Observations recorded using Python ": "Observations recorded using Python",
    "Case digest / ": "Case digest /",
}


@needs_seed
def test_the_published_page_is_read_whole():
    """Every fact of the page that was published, and both sources to the byte."""
    parsed = parse_page(read_page(next(SEEDS.glob("*.txt"))))
    facts = parsed.facts
    assert (facts.id, facts.family) == ("FA-99266", "Distributed training aggregation")
    assert (facts.access, facts.case, facts.variant) == ("Open access", "01", "1")
    assert facts.title == "Gradient shards are clipped independently rather than by the global norm"
    assert facts.statement == facts.title + "."
    assert facts.root_cause.startswith("Each rank computes a clipping factor")
    assert facts.unsuccessful_approach.startswith("Using the global root-mean-square")
    assert facts.contract == CONTRACT
    assert facts.why_it_matters.startswith("A toy distributed-training contract")
    assert facts.held_back.startswith("The verified repair")
    assert facts.held_back.endswith("inspect the repair.")
    assert facts.scope.startswith("Inputs are already materialized")
    assert facts.recorded_python == "3.12.14"
    assert facts.recorded_at == "2026-09-30T16:48:22.178536+00:00"
    assert facts.case_digest == "72c690d2cd7825d9b2073714700a8e7b21a076f535a0b9534ef607479305551f"
    assert facts.checks_per_implementation == 7
    for one in parsed.implementations:
        assert len(one.rows) == 7
        assert one.exit_text == "Exit 1"
        assert hashlib.sha256(one.source).hexdigest() == one.digest


def test_another_page_of_the_same_kind_is_read():
    """Nothing of the one published page is built in."""
    parsed = parse_page(PAGE)
    facts = parsed.facts
    assert (facts.id, facts.family, facts.access) == ("FA-00042", "Sums / and products", "Open access")
    assert (facts.case, facts.variant, facts.checks_per_implementation) == ("07", "3", 4)
    assert facts.failure == "The failure.\n\nStill the failure."
    assert facts.held_back == "The repair is held back.\n\nSign in."
    assert facts.case_digest == "ab" * 32
    first = parsed.implementations[0]
    assert first.source == source().encode()
    assert first.rows[0].label == "two shards"
    assert first.rows[0].actual == "[[4.0, 0.0], [0.0, 4.0]]"


@pytest.mark.parametrize("marker", SECTIONS)
def test_a_missing_section_is_named(marker):
    """The message says which section is not there."""
    broken = PAGE.decode().replace(marker, "?", 1).encode()
    with pytest.raises(InvalidValueError, match="without its section") as raised:
        parse_page(broken)
    assert SECTIONS[marker] in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"\x00\xff\xfe", b"\n" * 1000, "ROOT CAUSE".encode("utf-16")])
def test_what_is_no_page_at_all_is_refused(data):
    """The first section that every page has is the one that is missed."""
    with pytest.raises(InvalidValueError, match="'ROOT CAUSE'"):
        parse_page(data)


def test_converted_line_ends_are_refused_with_the_reason():
    """The digests cover LF; a page that was converted cannot be verified, only fetched again."""
    with pytest.raises(InvalidValueError, match="got CRLF on all"):
        parse_page(PAGE.replace(b"\n", b"\r\n"))


def test_a_source_may_hold_lines_that_look_like_the_page():
    """Headings, tables and digests inside a docstring do not end its section."""
    fake = '"""\n\n2 / The unsuccessful fix\n\nExit 0\n\nBoundary fixture\tActual\tExpected\tOutcome\nx\n"""\n'
    parsed = parse_page(page(fake + source()).encode())
    assert parsed.implementations[0].source == (fake + source()).encode()
    assert parsed.implementations[1].source.startswith(b'"""A page of the tests')


def test_labels_and_values_may_hold_anything_json_holds():
    """Backticks, quotes, separators of other standards, null and nested lists; tabs within a label too."""
    checks = (
        "check('a `quoted` | label \\\\ \\x85\\u2028 é 🙂', {'k': [None, True, '`\\t`']}, {'k': [None, True, '`']})\n"
        "check('a\\ttab', 1e300 * 1e10, None)\n"
    )
    rows = parse_page(page(source(checks=checks), source(checks=checks)).encode()).implementations[0].rows
    assert [row.label for row in rows] == ["a `quoted` | label \\ \x85\u2028 é 🙂", "a\ttab"]
    assert [row.actual for row in rows] == ['{"k": [null, true, "`\\t`"]}', "Infinity"]
    assert [row.problem for row in rows] == [None, None]


@settings(deadline=None)
@given(position=st.integers(0, len(source().encode()) - 2), byte=st.integers(0, 255), second=st.booleans())
def test_any_changed_byte_of_a_source_breaks_its_digest(position, byte, second):
    """Whatever the byte becomes, the page is still read and the digest no longer matches."""
    start = PAGE.index(b"2 / The unsuccessful fix" if second else b"1 / The failure")
    at = PAGE.index(b'"""A page', start) + (position if not second else position % 300)
    if PAGE[at] == byte:
        return
    changed = parse_page(PAGE[:at] + bytes([byte]) + PAGE[at + 1 :])
    one = changed.implementations[second]
    assert hashlib.sha256(one.source).hexdigest() != one.digest


@settings(deadline=None)
@given(position=st.integers(0, len(PAGE) - 1), piece=st.binary(max_size=3), gone=st.integers(0, 40))
def test_any_damage_is_read_or_refused(position, piece, gone):
    """No damage ends in anything but a page or an error that says what is wrong."""
    with contextlib.suppress(InvalidValueError):
        parsed = parse_page(PAGE[:position] + piece + PAGE[position + gone :])
        assert len(parsed.implementations) == 2


def test_files_that_are_no_pages_are_refused(tmp_path):
    """A folder, a missing file, a device and a file too large are usage errors."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    for path in (tmp_path, tmp_path / "none", large, tmp_path / "/dev/zero"):
        with pytest.raises(InvalidValueError, match="Expected a page"):
            read_page(path)
