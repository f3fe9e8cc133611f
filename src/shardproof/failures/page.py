"""Reading a published page of the Failure Map: its facts, its two sources to the byte, and their tables."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.records.page import PageFacts

LARGEST = 8 * 1024 * 1024
TABLE = "\nBoundary fixture\tActual\tExpected\tOutcome\n"
NAMES = ("The failure", "The unsuccessful fix")
HELD = "HELD IN THE MEMBER ARCHIVE"
SCOPE = "Verification & scope"


@dataclasses.dataclass(frozen=True)
class TableRow:
    """One line of a table as printed; `problem` says why it is not a row, where it is none."""

    label: str
    actual: str
    expected: str
    outcome: str
    problem: str | None = None


@dataclasses.dataclass(frozen=True)
class Implementation:
    """One source with what the page records about running it; nothing here is checked yet."""

    number: int
    name: str
    exit_text: str
    source: bytes
    """The exact bytes that the recorded digest covers: the printed source and one newline."""
    rows: tuple[TableRow, ...]
    digest: str


@dataclasses.dataclass(frozen=True)
class Page:
    """A page, read and not yet verified."""

    facts: PageFacts
    implementations: tuple[Implementation, ...]


def read_page(path: Path) -> bytes:
    """Return the bytes of a page's file.

    Raises:
        InvalidValueError: the file cannot be read, is no regular file, or is larger than 8 MiB.
    """
    try:
        if not path.is_file():
            raise InvalidValueError(f"Expected a page of the Failure Map, got {path}: no such regular file.")
        if path.stat().st_size > LARGEST:
            raise InvalidValueError(f"Expected a page of at most {LARGEST} bytes, got {path}, which is larger.")
        return path.read_bytes()
    except OSError as error:
        raise InvalidValueError(f"Expected a readable page, got {path}: {error.strerror}.") from error


def parse_page(data: bytes) -> Page:
    """Read a page from its exact bytes; a byte that is not UTF-8 is kept as it is.

    What can be wrong with the *content* (a digest that is no digest, a malformed row, an exit text that is no
    number) is kept as printed, for the verifier to name; only a missing section is an error.

    Raises:
        InvalidValueError: a section is missing (named), or the line ends were converted.
    """
    if (lines := data.count(b"\n")) and data.count(b"\r\n") == lines:
        raise InvalidValueError(
            f"Expected line ends LF, got CRLF on all {lines} lines. The digests cover the exact bytes with LF: "
            "fetch the page again without conversion."
        )
    text = data.decode("utf-8", "surrogateescape")
    head, text = _cut(text, "\n\nROOT CAUSE\n\n")
    root_cause, text = _cut(text, "\n\nTHE FAILURE\n\n")
    failure, text = _cut(text, "\n\nUnsuccessful approach: ")
    approach, text = _cut(text, "\n\nCase contract\n\n")
    contract, text = _cut(text, "\n\nWhy this case matters\n\n")
    why, text = _cut(text, f"\n\n1 / {NAMES[0]}\n\n")
    first, text = _implementation(text, 1, f"2 / {NAMES[1]}")
    second, text = _implementation(text, 2, HELD)
    held, text = _cut(text, f"\n\n{SCOPE}\n\n")
    facts = {
        **_head(head),
        **_tail(text),
        "root_cause": root_cause,
        "failure": failure,
        "unsuccessful_approach": approach,
        "contract": contract,
        "why_it_matters": why,
        "held_back": held,
    }
    return Page(PageFacts(**{name: shown(value) for name, value in facts.items()}), (first, second))


def shown(text: str) -> str:
    """Return `text` with what no encoding holds (a byte that is not UTF-8, a lone surrogate) as an escape.

    >>> shown("a" + chr(0xDCFF))
    'a\\\\udcff'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _cut(text: str, marker: str) -> tuple[str, str]:
    before, found, after = text.partition(marker)
    if not found:
        raise _missing(marker.strip())
    return before, after


def _missing(section: str) -> InvalidValueError:
    return InvalidValueError(
        f"Expected a page of the Failure Map, got one without its section {section!r} (a whole line of that text, "
        "after a blank line, in the order of the published pages)."
    )


def _head(text: str) -> dict[str, str]:
    paragraphs = text.split("\n\n")
    identity = re.fullmatch(r"(?P<id>[^\n]+?) / (?P<family>[^\n]+) / (?P<access>[^\n]+)", paragraphs[0])
    if not identity:
        raise _missing("ID / family / access")
    title = re.fullmatch(r"(?P<title>[^\n]+) · case (?P<case>[^\n]+)", paragraphs[1] if paragraphs[1:] else "")
    if not title:
        raise _missing("title · case number")
    checks = re.search(r"Variant (?P<variant>[^\n]+?) · (?P<n>\d{1,9}) checks? per implementation", paragraphs[-1])
    if not checks:
        raise _missing("Variant number · number of checks per implementation")
    return {
        **identity.groupdict(),
        **title.groupdict(),
        "statement": "\n\n".join(paragraphs[2:-1]),
        "variant": checks["variant"],
        "checks_per_implementation": checks["n"],
    }


def _tail(text: str) -> dict[str, str]:
    scope, text = _cut(text, "\n\nObservations recorded using Python ")
    recorded, digest = _cut(text, "\n\nCase digest / ")
    python, time = _cut(recorded, " at ")
    if not re.fullmatch(r"[0-9a-f]{64}", digest.strip()):
        raise InvalidValueError(
            f"Expected a page of the Failure Map that ends with its case digest, 64 hex digits, got {digest[:80]!r}."
        )
    return {
        "scope": scope,
        "recorded_python": python,
        "recorded_at": time.removesuffix("."),
        "case_digest": digest.strip(),
    }


def _implementation(text: str, number: int, following: str) -> tuple[Implementation, str]:
    name = NAMES[number - 1]
    # A source may print lines that look like a heading; only one right after a digest ends a section.
    end = re.search(rf"\n\nSHA-256 / ([^\n]*)\n\n{re.escape(following)}\n\n", text)
    if not end:
        raise _missing(f"SHA-256 of {number} / {name}, then {following}")
    body = text[: end.start()] + "\n"
    exit_text, _, body = body.partition("\n")
    at = body.rfind(TABLE)
    if at < 0:
        raise _missing(f"table of {number} / {name}")
    source = body[:at].removeprefix("\n").removesuffix("\n") + "\n"
    rows = tuple(_row(line) for line in body[at + len(TABLE) :].split("\n") if line)
    exact = source.encode("utf-8", "surrogateescape")
    return Implementation(number, name, shown(exit_text), exact, rows, shown(end[1])), text[end.end() :]


def _row(line: str) -> TableRow:
    cells = [shown(cell) for cell in line.rsplit("\t", 3)]
    if len(cells) != 4:
        return TableRow(shown(line), "", "", "", "it is not label, actual, expected, outcome between tabs")
    label, actual, expected, outcome = cells
    for cell in (actual, expected):
        if len(cell) < 2 or not (cell.startswith("`") and cell.endswith("`")):
            problem = f"the cell {cell!r} is not between backticks"
            return TableRow(label, actual, expected, outcome, problem)
    return TableRow(label, actual[1:-1], expected[1:-1], outcome)
