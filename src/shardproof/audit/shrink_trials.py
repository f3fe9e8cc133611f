"""Trying small cases: real ranks that stay warm, the control beside the subject, and never more than is allowed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from shardproof.audit.grade import VIOLATIONS, grade
from shardproof.audit.layouts import Layout
from shardproof.audit.ranks import Outcome, kept_warm
from shardproof.audit.run import layout_plan
from shardproof.audit.subjects import CONTROL
from shardproof.records.audit import (
    CellObservation,
    CellPlan,
    CellVerdict,
    CellWord,
    FixturePlan,
    LayoutPlan,
    Plan,
    Profile,
    SubjectPlan,
)

NO_PLAN: Final = "0" * 64
CALLS_RETURN: Final = "calls.return"


@dataclass(frozen=True)
class Failure:
    """How one call fails: the verdict, the clauses that it violates, and the exception's name where it raises."""

    word: CellWord
    clauses: frozenset[str]
    error: str = ""

    def covers(self, other: Failure) -> bool:
        """Whether this is a failure of the same kind: no clause of the other one is missing."""
        return self.word == other.word and self.error == other.error and other.clauses <= self.clauses


def failure_of(layout: LayoutPlan, call: FixturePlan, seen: Outcome, profile: Profile) -> Failure | None:
    """How one call of a subject fails, looked at alone and graded as an audit grades it; None where it is no failure.

    Args:
        layout: as planned; its calls do not matter.
        call: the call.
        seen: what the subject's ranks showed; of other calls nothing is looked at.
        profile: which clauses decide.
    """
    verdict = verdict_alone(layout, call, seen, profile)
    if verdict.verdict not in VIOLATIONS:
        return None
    violated = [
        each.clause
        for each in verdict.clauses
        if each.outcome == "violated" and (profile == "strict" or each.profile == "core")
    ]
    return Failure(verdict.verdict, frozenset(violated), _error(seen, call) if CALLS_RETURN in violated else "")


def verdict_alone(layout: LayoutPlan, call: FixturePlan, seen: Outcome, profile: Profile) -> CellVerdict:
    """The verdict on one call under one layout, whatever the control did."""
    # The control's own cell is the one that is graded without looking at a control.
    cell = CellPlan(id="alone", subject="alone", layout=layout.name, control=True)
    planned = layout.model_copy(update={"fixtures": (call,)})
    plan = Plan(run_id="", command=(), timeout_s=1.0, subjects=(), layouts=(planned,), cells=(cell,))
    ranks = tuple(
        rank.model_copy(update={"calls": tuple(each for each in rank.calls if each.fixture == call.name)})
        for rank in seen.ranks
    )
    observed = CellObservation(
        plan_sha256=NO_PLAN, cell=cell.id, status=seen.status, note=seen.note, started="", seconds=0.0, ranks=ranks
    )
    return grade(plan, NO_PLAN, [observed], profile=profile).cells[0]


def _error(seen: Outcome, call: FixturePlan) -> str:
    calls = [each for rank in seen.ranks for each in rank.calls if each.fixture == call.name]
    errors = [each.error for each in calls if each.outcome == "raised" and each.error]
    return errors[0].partition(":")[0] if errors else ""


@dataclass
class Trials:
    """Tries of one subject, each made once; `left` and `until` are what may still be spent."""

    subject: SubjectPlan
    profile: Profile
    timeout_s: float
    left: int
    until: float
    tries: int = 0
    _known: dict[str, Failure | None] = field(default_factory=dict)
    _open: dict[str, tuple[str, Callable[[FixturePlan], tuple[Outcome, bool]], contextlib.ExitStack]] = field(
        default_factory=dict
    )

    def close(self) -> None:
        """End the ranks that are kept warm."""
        for spec in list(self._open):
            self._close(spec)

    def spent(self) -> bool:
        """Whether tries or time are used up."""
        return self.left <= 0 or time.monotonic() >= self.until

    def failure(self, layout: Layout, calls: Sequence[FixturePlan], wanted: Failure) -> FixturePlan | None:
        """The first of the calls that fails as wanted while the control holds; None too where nothing is left."""
        for call in calls:
            found = self.look(layout, call, wanted)
            if found is not None and found.covers(wanted):
                return call
        return None

    def look(self, layout: Layout, call: FixturePlan, wanted: Failure | None = None) -> Failure | None:
        """How the call fails; the control is run only where the subject alone seems to fail as wanted."""
        planned = layout_plan(layout, calls=(call,))
        key = planned.model_dump_json()
        if key not in self._known:
            if self.spent():
                return None
            self.left, self.tries = self.left - 1, self.tries + 1
            self._known[key] = self._looked(layout, planned, call, wanted)
        return self._known[key]

    def observe(self, spec: str, layout: Layout, call: FixturePlan) -> Outcome:
        """What the ranks show of one call; ranks of another layout are ended, those that are out of step replaced."""
        key = repr(layout)
        if spec in self._open and self._open[spec][0] != key:
            self._close(spec)
        if spec not in self._open:
            stack = contextlib.ExitStack()
            make = stack.enter_context(kept_warm(layout, spec, self.timeout_s, call.norm_type))
            self._open[spec] = (key, make, stack)
        outcome, goes_on = self._open[spec][1](call)
        if not goes_on:
            self._close(spec)
        return outcome

    def _looked(self, layout: Layout, planned: LayoutPlan, call: FixturePlan, wanted: Failure | None) -> Failure | None:
        found = failure_of(planned, call, self.observe(self.subject.spec, layout, call), self.profile)
        if found is None or (wanted is not None and not found.covers(wanted)):
            return found
        control = verdict_alone(planned, call, self.observe(CONTROL, layout, call), self.profile)
        return found if control.verdict == "pass" else None

    def _close(self, spec: str) -> None:
        self._open.pop(spec)[2].close()
