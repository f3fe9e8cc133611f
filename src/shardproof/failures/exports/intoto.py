"""in-toto statements (v1) that a case was verified; the predicate is the framework's own test result (v0.1)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

from shardproof.failures.bundles import file_name
from shardproof.failures.folders import File
from shardproof.failures.plan import Plan
from shardproof.records.map import CaseResult
from shardproof.records.map_share import Statement


def intoto_files(plans: Iterable[Plan], results: Mapping[str, CaseResult]) -> Iterator[File]:
    """A statement for each case that has a result; one without says nothing.

    Args:
        plans: the cases.
        results: by id, of cases that held.
    """
    for plan in plans:
        if (result := results.get(plan.content.id)) is not None:
            text = json.dumps(statement(plan, result).model_dump(mode="json", by_alias=True), indent=2)
            yield f"{file_name(plan.content.id)}.intoto.json", (text + "\n").encode("ascii")


def statement(plan: Plan, result: CaseResult) -> Statement:
    """The statement about one case: its subjects are the open programs, by the SHA-256 of their exact bytes.

    The repair is no subject, since its digest is held back. The tests that are named are programs that were seen to
    keep their role: the role rules hold, or there is no result to state.
    """
    subjects: list[dict[str, JsonValue]] = [
        {"name": f"{plan.content.id}/{one.role}.py", "digest": {"sha256": one.sha256}} for one in plan.content.programs
    ]
    configuration: dict[str, JsonValue] = {
        "name": f"{plan.content.id}/case.json",
        "digest": {"sha256": plan.digest},
        "annotations": {
            "level": result.level,
            "repair": result.repair,
            "python": result.python,
            "platform": result.platform,
            "time": result.time,
        },
    }
    roles: list[JsonValue] = [f"{one.role}, {one.part} checks" for one in result.programs]
    return Statement.model_validate(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicate": {"result": "PASSED", "configuration": [configuration], "passedTests": roles},
        }
    )
