"""What a page's program printed, read as the observations that it claims; every claim is derived again."""

from __future__ import annotations

import dataclasses
from typing import Any

from shardproof.errors import InvalidValueError
from shardproof.failures.exact_json import equal, parsed, written
from shardproof.failures.page import shown
from shardproof.records.page import CheckRow

OUTCOMES = {True: "Passed", False: "Failed"}


@dataclasses.dataclass(frozen=True)
class Claims:
    """The rows a program printed, and where its own flags contradict its own values."""

    rows: tuple[CheckRow, ...]
    flags: tuple[str | None, ...]
    """For each row, how its `passed` contradicts its values; None where it does not."""
    all_passed: bool
    """Derived from the values, not from the program's flags."""
    total: str | None
    """How the program's overall `passed` contradicts its rows; None where it does not."""


def read_claims(stdout: bytes) -> Claims:
    """Read standard output as exactly one JSON document of observations.

    Raises:
        InvalidValueError: it is anything else: no JSON, two documents, other keys, a flag that is no boolean.
    """
    document = _object(parsed(_text(stdout)), {"observations", "passed"}, "the document")
    entries = document["observations"]
    if not isinstance(entries, list) or not isinstance(document["passed"], bool):
        raise InvalidValueError("Expected observations as a list and passed as a boolean.")
    graded = [_grade(entry, index) for index, entry in enumerate(entries)]
    derived = all(passed for _, passed, _ in graded)
    flag = document["passed"]
    total = None if flag == derived else f"it says passed={str(flag).lower()} of all, its values say otherwise"
    return Claims(tuple(row for row, _, _ in graded), tuple(flag for _, _, flag in graded), derived, total)


def _text(stdout: bytes) -> str:
    if not stdout.strip():
        raise InvalidValueError("Expected one JSON document on standard output, got nothing.")
    try:
        return stdout.decode()
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"Expected UTF-8 on standard output: {error}") from None


def _grade(candidate: object, index: int) -> tuple[CheckRow, bool, str | None]:
    entry = _object(candidate, {"check", "actual", "expected", "passed"}, f"observation {index + 1}")
    label, claimed = entry["check"], entry["passed"]
    if not isinstance(label, str) or not isinstance(claimed, bool):
        raise InvalidValueError(f"Expected a text as check and a boolean as passed in observation {index + 1}.")
    passed = equal(entry["actual"], entry["expected"])
    row = CheckRow(
        label=shown(label),
        actual=written(entry["actual"]),
        expected=written(entry["expected"]),
        outcome=OUTCOMES[claimed],
    )
    relation = "equal" if passed else "unequal"
    flag = None if claimed == passed else f"its flag says {row.outcome}, its actual and expected are {relation}"
    return row, passed, flag


def _object(candidate: object, keys: set[str], where: str) -> dict[str, Any]:
    if not isinstance(candidate, dict) or set(candidate) != keys:
        got = sorted(map(shown, candidate))[:8] if isinstance(candidate, dict) else type(candidate).__name__
        raise InvalidValueError(f"Expected an object with {sorted(keys)} as {where}, got {got}.")
    return candidate
