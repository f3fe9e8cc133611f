"""The contract as tests of a project of your own: one test for each layout and clause, run by pytest."""

from __future__ import annotations

import fnmatch
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from shardproof.errors import InvalidValueError, ShardproofError

Subject = Callable[..., Any] | str


class ContractViolationError(AssertionError):
    """A clause of the contract is violated; the only failure that an expected one may be."""


class CouldNotTellError(ShardproofError):
    """No verdict could be reached on a cell: never a pass, and never an expected failure."""


def parametrize_with_contract(
    subject: Subject,
    *,
    layouts: Sequence[str] = (),
    expected_failures: Mapping[str, str] | None = None,
    profile: str = "core",
    norm_type: float = 2.0,
    timeout_s: float = 5.0,
) -> pytest.MarkDecorator:
    """Parametrize a test with one `check` for each layout and clause; the test calls it.

        @parametrize_with_contract("mine.py:clip", layouts=["ddp", "fsdp2"])
        def test_contract(check):
            check()

    A layout is run, in real processes, when its first check is called; all its checks share what was seen.

    Args:
        subject: what `shardproof audit run` takes, or a function at the top level of a file.
        layouts: names of layouts; none for the quick ones.
        expected_failures: CLAUSE, or LAYOUT/CLAUSE with patterns as in "fsdp2*/norm.global" -> the reason. Strict: an
            expected failure that holds fails the test, and so does one whose cell could not be judged.
        profile: "core", or "strict", which adds bits and policies.
        norm_type: the order of the norm that the subject is asked for.
        timeout_s: seconds that a collective may take.

    Raises:
        InvalidValueError: an unknown layout, clause or profile, or an expected failure that matches none or has no
            reason.
    """
    from shardproof.audit.clauses import CLAUSES, STRICT
    from shardproof.audit.layouts import QUICK, named

    if profile not in ("core", "strict"):
        raise InvalidValueError(f"Expected the profile core or strict, got profile={profile!r}.")
    chosen = [layout.name for layout in named(tuple(layouts) or QUICK)]
    # What compares layouts has no verdict in any one of them.
    graded = [each for each in CLAUSES if (profile == "strict" or each not in STRICT) and each != "bits.across-layouts"]
    places = [(layout, clause) for layout in chosen for clause in graded]
    expected = dict(expected_failures or {})
    _sensible(expected, places)
    run = functools.partial(_verdict, _spec(subject), timeout_s=timeout_s, norm_type=norm_type)
    return pytest.mark.parametrize(
        "check",
        [
            pytest.param(
                functools.partial(_check, run, layout, clause),
                id=f"{layout}-{clause}",
                marks=[pytest.mark.shardproof, *_expected(expected, layout, clause)],
            )
            for layout, clause in places
        ],
    )


def _sensible(expected: Mapping[str, str], places: Sequence[tuple[str, str]]) -> None:
    for key, reason in expected.items():
        if not any(_matches(key, layout, clause) for layout, clause in places):
            raise InvalidValueError(
                f"Expected a clause, or LAYOUT/CLAUSE, that is checked, got expected_failures key {key!r}. Checked: "
                f"{', '.join(sorted({clause for _, clause in places}))}."
            )
        if not reason.strip():
            raise InvalidValueError(f"Expected a reason for the expected failure {key!r}, got {reason!r}. Say why.")


def _matches(key: str, layout: str, clause: str) -> bool:
    where, slash, what = key.rpartition("/")
    return what == clause and (not slash or fnmatch.fnmatchcase(layout, where))


def _expected(expected: Mapping[str, str], layout: str, clause: str) -> list[pytest.MarkDecorator]:
    reasons = [reason for key, reason in expected.items() if _matches(key, layout, clause)]
    return [pytest.mark.xfail(reason=reason, strict=True, raises=ContractViolationError) for reason in reasons[:1]]


def _spec(subject: Subject) -> str:
    if isinstance(subject, str):
        return subject
    file = inspect.getsourcefile(inspect.unwrap(subject)) if inspect.isfunction(subject) else None
    if file is None or "<locals>" in subject.__qualname__:
        raise InvalidValueError(
            f"Expected a subject's name, or a function at the top level of a file, got {subject!r}. Ranks import it."
        )
    return f"{Path(file).resolve()}:{subject.__qualname__}"


@functools.cache
def _verdict(spec: str, layout: str, timeout_s: float, norm_type: float) -> Any:
    from shardproof.audit.layouts import LAYOUTS
    from shardproof.audit.run import one_cell

    return one_cell(spec, LAYOUTS[layout], timeout_s=timeout_s, norm_type=norm_type)


def _check(run: Callable[[str], Any], layout: str, clause: str) -> None:
    """Raise where the clause is violated, or nothing can be said; skip where it was not exercised."""
    cell = run(layout)
    if cell.verdict == "skip":
        pytest.skip(f"{layout}: {cell.reason}")
    if cell.verdict in ("could not tell", "flaky", "not run"):
        raise CouldNotTellError(f"{layout}: {cell.verdict}: {cell.reason}")
    graded = next(each for each in cell.clauses if each.clause == clause)
    if graded.outcome == "violated":
        raise ContractViolationError(f"{layout}: {clause}: {graded.first.text if graded.first else cell.reason}")
    if graded.outcome == "not exercised":
        pytest.skip(f"{layout}: {clause} was not exercised: {cell.reason}")
