"""Holding what a page records against what was observed, row by row, and naming what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from shardproof.errors import InvalidValueError
from shardproof.failures.exact_json import parsed, written
from shardproof.failures.observed import Claims
from shardproof.failures.page import TableRow
from shardproof.records.page import CheckRow, ExitCode, Observation

SHOWN = 120
"""Characters of a value in a sentence; the record holds the whole of it."""


def compare_rows(recorded: Sequence[TableRow], claims: Claims) -> tuple[Observation, ...]:
    """Pair the page's rows with the observed ones and compare each pair; unpaired rows do not agree.

    A row is paired with the observation of the same label (the n-th of that label with the n-th), what is left
    over with what is left over at the same place. Values are compared as JSON values of the same kind.
    """
    observed = list(zip(claims.rows, claims.flags, strict=True))
    pairs = _pairs([row.label for row in recorded], [row.label for row in claims.rows])
    return tuple(
        _observation(
            None if left is None else recorded[left],
            *((None, None) if right is None else observed[right]),
        )
        for left, right in pairs
    )


def unobserved(recorded: Sequence[TableRow], why: str | None) -> tuple[Observation, ...]:
    """The page's rows when nothing was observed: not reproduced (`why`), or None: it could not be told."""
    return tuple(
        Observation(
            recorded=_row(row),
            observed=None,
            agrees=None if why is None else False,
            differs=() if why is None else (why,),
        )
        for row in recorded
    )


def compare_exit(text: str, observed: int | None) -> ExitCode:
    """Hold the page's exit text, as in `Exit 1`, against the observed code."""
    said = re.fullmatch(r"Exit (0|-?[1-9][0-9]{0,8})", text)
    agrees = None if observed is None else bool(said) and int(text.removeprefix("Exit ")) == observed
    return ExitCode(recorded=text, observed=observed, agrees=agrees)


def compare_shape(recorded: Sequence[TableRow], claims: Claims, checks: int) -> list[str]:
    """What is wrong with the rows as a whole: their number, their order, labels that repeat."""
    said = []
    for what, labels in (
        ("the table", [row.label for row in recorded]),
        ("the program", [row.label for row in claims.rows]),
    ):
        if len(labels) != checks:
            said.append(f"{what} has {len(labels)} checks, the page says {checks} per implementation")
        said += [f"{what} has {label!r} {n} times" for label, n in Counter(labels).items() if n > 1]
    table, program = [row.label for row in recorded], [row.label for row in claims.rows]
    if table != program and Counter(table) == Counter(program):
        said.append("the table has the program's checks in another order")
    return said


def _pairs(recorded: list[str], observed: list[str]) -> list[tuple[int | None, int | None]]:
    free = {key: index for index, key in enumerate(_counted(observed))}
    pairs: dict[int, int] = {}
    for index, key in enumerate(_counted(recorded)):
        if key in free:
            pairs[index] = free.pop(key)
    left = [index for index in range(len(recorded)) if index not in pairs]
    right = sorted(free.values())
    same_place = set(left) & set(right)
    pairs |= {index: index for index in same_place}
    rows: list[tuple[int | None, int | None]] = [(index, pairs.get(index)) for index in range(len(recorded))]
    return rows + [(None, index) for index in right if index not in same_place]


def _counted(labels: list[str]) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    keys = []
    for label in labels:
        keys.append((label, seen[label]))
        seen[label] += 1
    return keys


def _observation(recorded: TableRow | None, observed: CheckRow | None, flag: str | None) -> Observation:
    differs = _differences(recorded, observed) + ([flag] if flag else [])
    return Observation(
        recorded=_row(recorded) if recorded else None,
        observed=observed,
        agrees=not differs,
        differs=tuple(differs),
    )


def _differences(recorded: TableRow | None, observed: CheckRow | None) -> list[str]:
    if recorded is None:
        return ["observed, not recorded in the table"]
    if observed is None:
        return ["recorded in the table, not observed"]
    if recorded.problem:
        return [f"the table's line is malformed: {recorded.problem}"]
    texts = [("label", recorded.label, observed.label), ("outcome", recorded.outcome, observed.outcome)]
    values = [("actual", recorded.actual, observed.actual), ("expected", recorded.expected, observed.expected)]
    return [_said(*text) for text in texts if text[1] != text[2]] + [
        _said(*value) for value in values if not _same_value(value[1], value[2])
    ]


def _said(what: str, recorded: str, observed: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip_longest(recorded, observed)) if a != b), 0)
    return f"{what}: recorded {_cut(recorded, at)}, observed {_cut(observed, at)}"


def _cut(text: str, around: int) -> str:
    # A long value is cut around the place where the two differ, which is what a reader looks for.
    start = max(0, around - SHOWN // 2) if len(text) > SHOWN else 0
    piece = text[start : start + SHOWN]
    return f"{'…' if start else ''}{piece}{'…' if start + SHOWN < len(text) else ''}"


def _same_value(recorded: str, observed: str) -> bool:
    try:
        return written(parsed(recorded)) == observed
    except InvalidValueError:
        return False


def _row(row: TableRow) -> CheckRow:
    return CheckRow(label=row.label, actual=row.actual, expected=row.expected, outcome=row.outcome)
