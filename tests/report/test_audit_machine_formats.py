"""JUnit and SARIF: every planned cell is there, nothing unsettled looks like a pass, fingerprints do not move."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.audit.conftest import SUBJECTS, observed_right
from tests.audit.test_grade import changed

from shardproof.audit.environment import environment
from shardproof.audit.grade import grade
from shardproof.audit.layouts import named
from shardproof.audit.run import plan_of
from shardproof.records.audit import AuditReport, Returned
from shardproof.report.junit import audit_junit
from shardproof.report.sarif import audit_sarif


def report_on(*observations, plan, **options):
    verdict = grade(plan, "0" * 64, observations, **options)
    return AuditReport(plan=plan, environment=environment(), verdict=verdict)


@pytest.fixture
def plan():
    return plan_of([f"{SUBJECTS / 'right.py'}:by_hand"], named(["hand-sharded", "pipeline"]), timeout_s=1.0)


@pytest.fixture
def wrong(plan):
    """Both cells of the subject, the first with a wrong norm on rank 1."""
    cells = [observed_right(plan, cell.id) for cell in plan.cells]
    cells[1] = changed(cells[1], 1, 0, returned=Returned(type="float", number=1.0))
    return cells


def test_junit_has_every_cell_as_skipped_before_anything_ran(plan):
    suite = ET.fromstring(audit_junit(report_on(plan=plan))).find("testsuite")

    assert suite.attrib["tests"] == suite.attrib["skipped"] == "2"
    assert [case.find("skipped").attrib["message"][:7] for case in suite.iter("testcase")] == ["not run"] * 2


def test_junit_tells_failures_from_what_could_not_be_told(plan, wrong):
    broken = wrong[3].model_copy(update={"status": "harness failed", "note": "no \x1b[31m pipes", "ranks": ()})
    suite = ET.fromstring(audit_junit(report_on(*wrong[:3], broken, plan=plan))).find("testsuite")

    assert (suite.attrib["failures"], suite.attrib["errors"], suite.attrib["skipped"]) == ("1", "1", "0")
    failed, unsettled = suite.iter("testcase")
    assert "norm.global" in failed.find("failure").text
    assert "could not tell: no \\x1b[31m pipes" in unsettled.find("error").attrib["message"]


def test_sarif_names_the_line_and_its_fingerprints_do_not_move(plan, wrong):
    one = json.loads(audit_sarif(report_on(*wrong, plan=plan), SUBJECTS))["runs"][0]
    again = plan_of([f"{SUBJECTS / 'right.py'}:by_hand"], named(["hand-sharded", "pipeline"]), timeout_s=1.0)
    other = json.loads(audit_sarif(report_on(*wrong, plan=again), SUBJECTS))["runs"][0]
    place = one["results"][0]["locations"][0]["physicalLocation"]

    assert place["artifactLocation"]["uri"] == "right.py"
    line = Path(SUBJECTS / "right.py").read_text().splitlines()[place["region"]["startLine"] - 1]
    assert line.startswith("def by_hand(")
    assert {result["ruleId"]: result["level"] for result in one["results"]} == {
        "norm.global": "error",
        "norm.same-on-ranks": "error",
        "bits.norm": "note",
    }
    prints = [result["partialFingerprints"] for result in one["results"]]
    assert prints == [result["partialFingerprints"] for result in other["results"]]
    assert len({str(each) for each in prints}) == len(prints)


def test_sarif_suppresses_what_is_waived_with_its_reason(plan, wrong):
    text = audit_sarif(report_on(*wrong, plan=plan, waivers={"norm.global": "issue 7"}), SUBJECTS)
    results = {each["ruleId"]: each for each in json.loads(text)["runs"][0]["results"]}

    assert results["norm.global"]["suppressions"] == [{"kind": "external", "justification": "issue 7"}]
    assert "suppressions" not in results["norm.same-on-ranks"]


def test_sarif_of_a_run_without_verdict_says_that_it_did_not_succeed(plan):
    run = json.loads(audit_sarif(report_on(plan=plan), SUBJECTS))["runs"][0]

    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is False
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 2
