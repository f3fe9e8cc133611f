"""Two runs compared: what changed is named, what did not is counted, what only one planned is said."""

import pytest
from tests.audit.conftest import SUBJECTS, observed_right
from tests.audit.test_grade import changed

from shardproof.audit.diff import diff
from shardproof.audit.environment import environment
from shardproof.audit.grade import grade
from shardproof.audit.layouts import named
from shardproof.audit.run import plan_of
from shardproof.records.audit import AuditReport, Returned


def report(*layouts, wrong=()):
    plan = plan_of([f"{SUBJECTS / 'right.py'}:by_hand"], named(layouts), timeout_s=1.0)
    seen = [observed_right(plan, cell.id) for cell in plan.cells]
    for place in wrong:
        seen[place] = changed(seen[place], 0, 0, returned=Returned(type="float", number=1.0))
    return AuditReport(plan=plan, environment=environment(), verdict=grade(plan, "0" * 64, seen))


def test_two_equal_runs_have_no_difference():
    compared = diff(report("hand-sharded", "pipeline"), report("hand-sharded", "pipeline"))

    assert (compared.same, compared.changes, compared.notes) == (2, (), ())


def test_a_cell_that_got_worse_is_named_with_its_clauses():
    compared = diff(report("hand-sharded", "pipeline"), report("hand-sharded", "pipeline", wrong=[1]))
    (change,) = compared.changes

    assert (compared.same, change.layout, change.old, change.new) == (1, "hand-sharded", "pass", "fail")
    assert {each.clause: (each.old, each.new) for each in change.clauses}["norm.global"] == ("held", "violated")


@pytest.mark.parametrize(("old", "new"), [(["pipeline"], ["pipeline", "ddp"]), (["pipeline", "ddp"], ["pipeline"])])
def test_a_cell_that_only_one_run_planned_is_a_change(old, new):
    (change,) = diff(report(*old), report(*new)).changes

    assert change.layout == "ddp"
    assert {change.old, change.new} == {"pass", "not planned"}
