"""Judging a case by what its programs printed: every outcome is compared again here, none is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from shardproof.errors import InvalidValueError
from shardproof.failures.mechanism import Check
from shardproof.failures.plan import Plan, Program
from shardproof.failures.roles import Row, broken_held_back, broken_roles, broken_rows
from shardproof.failures.values import plain, same
from shardproof.isolation import Run
from shardproof.records.map import CaseResult, CaseWord, ObservedCheck, ProgramResult

OWN_DOING = ("exited", "signal", "left processes")
"""Endings that are the program's own."""


def judge_program(program: Program, runs: Sequence[Run]) -> ProgramResult:
    """Read and judge all runs of one program; the first is recorded, the others have to equal it."""
    first = runs[0]
    unclear = tuple(dict.fromkeys(said for run in runs for said in _unclear(run)))
    rows, problems = _read(first, program.checks) if not unclear else ((), [])
    if not unclear:
        others = [
            run for run in runs[1:] if (run.stdout, run.record.exit_code) != (first.stdout, first.record.exit_code)
        ]
        problems += [f"{len(others)} of {len(runs) - 1} further runs differ from the first"] if others else []
    return ProgramResult(
        role=program.role,
        part=program.part,
        sha256=program.sha256,
        runs=len(runs),
        ending=first.record.ending,
        exit_code=first.record.exit_code,
        detail=first.record.detail,
        observations=rows,
        problems=tuple(problems),
        unclear=unclear,
    )


def judge_roles(plan: Plan, results: Sequence[ProgramResult]) -> tuple[str, ...]:
    """Name every role rule that does not hold; only asked when all programs were observed."""
    visible = {one.role: _rows(one) for one in results if one.part == "visible"}
    hidden = {one.role: _rows(one) for one in results if one.part == "held back"}
    asked = next(program.checks for program in plan.programs if program.part == "visible")
    said = [*plan.broken, *broken_roles(visible, asked)]
    return tuple(said + (broken_held_back(hidden) if hidden else []))


def misremembered(result: CaseResult, plan: Plan | None = None) -> list[str]:
    """Name what a stored verdict `held` contradicts: its own observations and, where it is given, the plan.

    A cache and a file of results can be edited; what they say is derived again, like what a program says.
    """
    said = ["it did not hold"] if result.verdict != "held" or result.broken else []
    for one in result.programs:
        rows = _rows(one)
        said += ["a program with problems"] if one.problems or one.unclear or not rows else []
        said += ["an outcome that its values contradict"] if any(_misjudged(row) for row in one.observations) else []
        said += (
            ["an exit code that its outcomes contradict"] if one.exit_code != (not all(r.passed for r in rows)) else []
        )
    visible = {one.role: _rows(one) for one in result.programs if one.part == "visible"}
    if not {"failing", "unsuccessful"} <= visible.keys() or len({len(rows) for rows in visible.values()}) > 1:
        return [*said, "a program is missing"]
    said += broken_rows(visible)
    said += [
        row.check for one in result.programs if one.part == "held back" for row in one.observations if not row.passed
    ]
    return said + ([] if plan is None else _other(result, plan))


def _misjudged(row: ObservedCheck) -> bool:
    return row.passed is not same(row.actual, row.expected)


def _other(result: CaseResult, plan: Plan) -> list[str]:
    """What makes a result one of another plan: programs, or checks that they were asked."""
    asked = [(one.role, one.part, one.sha256) for one in plan.programs]
    if result.case_digest != plan.digest or asked != [(one.role, one.part, one.sha256) for one in result.programs]:
        return ["it is of other programs"]
    for program, one in zip(plan.programs, result.programs, strict=True):
        pairs = [(check.label, plain(check.expected)) for check in program.checks]
        if len(pairs) != len(one.observations) or not all(
            row.check == label and same(row.expected, expected)
            for row, (label, expected) in zip(one.observations, pairs, strict=True)
        ):
            return ["it is of other checks"]
    return list(judge_roles(plan, result.programs))


def word(results: Sequence[ProgramResult], broken: Sequence[str]) -> CaseWord:
    """The verdict: a broken rule or report is `violated`, what could not be observed `could not tell`."""
    if broken or any(one.problems for one in results):
        return "violated"
    return "could not tell" if not results or any(one.unclear for one in results) else "held"


def _unclear(run: Run) -> list[str]:
    record = run.record
    said = [] if record.ending in OWN_DOING else [record.detail]
    return said + (["some of its processes could not be killed"] if record.unkilled_processes else [])


def _read(run: Run, checks: Sequence[Check]) -> tuple[tuple[ObservedCheck, ...], list[str]]:
    record = run.record
    problems = [f"it ended otherwise than by exit: {record.detail}"] if record.ending != "exited" else []
    problems += (
        [f"it wrote outside its folder: {', '.join(record.wrote_elsewhere[:5])}"] if record.wrote_elsewhere else []
    )
    try:
        rows = read_report(run.stdout, checks)
    except InvalidValueError as error:
        last = record.stderr_tail.strip().rpartition("\n")[2]
        return (), [*problems, f"{error} It ended so: {record.detail}; {last[:200]}"]
    passed = all(row.passed for row in rows)
    if record.exit_code != (0 if passed else 1):
        problems.append(f"it exits {record.exit_code} where {0 if passed else 1} is said by its observations")
    return rows, problems


def read_report(stdout: bytes, checks: Sequence[Check]) -> tuple[ObservedCheck, ...]:
    """Read what a rendered program printed, and judge each check again with the expected values held here.

    Args:
        stdout: the program's standard output, one JSON object.
        checks: what it was asked, in order.

    Returns:
        One observation for each check.

    Raises:
        InvalidValueError: it is no such object, is about other checks, or a flag contradicts its values.
    """
    document = _document(stdout)
    entries = document.get("observations")
    if set(document) != {"observations", "passed"} or not isinstance(entries, list) or len(entries) != len(checks):
        raise InvalidValueError(f"Expected {len(checks)} observations and passed, got something else.")
    rows = tuple(_row(entry, check) for entry, check in zip(entries, checks, strict=True))
    if document["passed"] is not all(row.passed for row in rows):
        raise InvalidValueError(f"Expected passed to follow from the observations, got passed={document['passed']!r}.")
    return rows


def _document(stdout: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(stdout.decode("utf-8"), parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"Expected one JSON object on standard output: {error}.") from None
    if not isinstance(document, dict):
        raise InvalidValueError("Expected one JSON object on standard output, got another value.")
    return document


def _refused(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _row(entry: object, check: Check) -> ObservedCheck:
    expected = plain(check.expected)
    if not isinstance(entry, dict) or set(entry) != {"check", "actual", "expected", "passed"}:
        raise InvalidValueError(f"Expected an observation of {check.label!r}, got something else.")
    if entry["check"] != check.label or not same(entry["expected"], expected):
        raise InvalidValueError(f"Expected an observation of {check.label!r}, got one of another check.")
    passed = same(entry["actual"], expected)
    if entry["passed"] is not passed:
        raise InvalidValueError(f"Expected passed={passed} of {check.label!r}, got passed={entry['passed']!r}.")
    return ObservedCheck.model_validate(
        {"check": check.label, "actual": entry["actual"], "expected": expected, "passed": passed}
    )


def _rows(result: ProgramResult) -> tuple[Row, ...]:
    return tuple(Row(one.check, one.actual, one.passed) for one in result.observations)
