"""Reading a published page of the seed's kind as a case; nothing on the page is believed that can be derived."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from shardproof.errors import InvalidValueError
from shardproof.failures.exact_json import equal, parsed, written
from shardproof.failures.page import Implementation, Page, parse_page
from shardproof.isolation import Limits, run_isolated
from shardproof.records.isolation import Level
from shardproof.records.map import CaseEntry, CheckContent, ObservedCheck
from shardproof.records.map_share import ImportedCase, ImportedProgram

ROLES = ("failing", "unsuccessful")

# Runs in the isolated child: the page's own checks are evaluated with recorders in place of `solve` and `check`.
EXTRACTOR = """
import ast, json
found = []
class Asked:
    def __init__(self, arguments):
        self.arguments = json.loads(json.dumps(arguments, allow_nan=False))
def solve(*arguments):
    return Asked(arguments)
def check(label, actual, expected):
    found.append({"label": label, "arguments": actual.arguments, "expected": expected})
def kept(node):
    if isinstance(node, ast.FunctionDef):
        return node.name not in ("solve", "check")
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return getattr(node.value.func, "id", None) != "print"
    return not isinstance(node, ast.Raise)
tree = ast.parse(SOURCE)
tree.body = [node for node in tree.body if kept(node)]
exec(compile(tree, "page", "exec"), {"__name__": "__main__", "solve": solve, "check": check})
print(json.dumps(found, allow_nan=False))
"""


class PageDigestError(InvalidValueError):
    """A source of the page does not match the digest that the page records."""


class PageUnclearError(InvalidValueError):
    """The page's checks could not be had from its source."""


def import_page(
    data: bytes, entries: Sequence[CaseEntry], *, level: Level = "process", limits: Limits | None = None
) -> ImportedCase:
    """Read a page's bytes as a case whose repair is held back.

    Args:
        data: the page.
        entries: our registry, in which the page's id may be an alias.
        level: how the page's source is held while its checks are taken from it.
        limits: what it may use.

    Returns:
        The case: texts, both sources to the byte, arguments and expected values of each check.

    Raises:
        InvalidValueError: it is no such page, or its sources are not UTF-8.
        PageDigestError: a source is not the one whose digest the page records.
        PageUnclearError: its two sources ask different checks, or they cannot be taken from them.
        IsolationUnavailableError: the level cannot be had here.
    """
    page = parse_page(data)
    facts = page.facts
    programs = tuple(_program(role, one) for role, one in zip(ROLES, page.implementations, strict=True))
    checks = _checks(page, level, limits)
    known = [entry.id for entry in entries if facts.id in entry.aliases]
    return ImportedCase(
        id=facts.id,
        family=facts.family,
        title=facts.title,
        contract=facts.contract,
        root_cause=facts.root_cause,
        failure=facts.failure,
        unsuccessful_approach=facts.unsuccessful_approach,
        why_it_matters=facts.why_it_matters,
        scope=facts.scope,
        variant=facts.variant,
        checks=checks,
        programs=programs,
        known_as=known[0] if known else None,
        recorded_python=facts.recorded_python,
        recorded_at=facts.recorded_at,
        recorded_case_digest=facts.case_digest,
        page_sha256=hashlib.sha256(data).hexdigest(),
    )


def _program(role: str, one: Implementation) -> ImportedProgram:
    digest = hashlib.sha256(one.source).hexdigest()
    if digest != one.digest:
        raise PageDigestError(f"Expected {one.name} with SHA-256 {one.digest}, got {digest} from its exact bytes.")
    try:
        source = one.source.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidValueError(f"Expected UTF-8 in {one.name}, got other bytes; a record cannot hold them.") from None
    return ImportedProgram.model_validate(
        {
            "role": role,
            "source": source,
            "sha256": digest,
            "exit_recorded": one.exit_text,
            "observations": [_row(*row) for row in _table(one)],
        }
    )


def _table(one: Implementation) -> list[tuple[str, object, object]]:
    for row in one.rows:
        if row.problem:
            raise InvalidValueError(f"Expected a table of rows under {one.name}, got {row.label!r:.80}: {row.problem}.")
    return [(row.label, parsed(row.actual), parsed(row.expected)) for row in one.rows]


def _row(label: str, actual: object, expected: object) -> ObservedCheck:
    passed = equal(actual, expected)
    return ObservedCheck.model_validate({"check": label, "actual": actual, "expected": expected, "passed": passed})


def _checks(page: Page, level: Level, limits: Limits | None) -> tuple[CheckContent, ...]:
    asked = [_asked(one, level, limits) for one in page.implementations]
    if written([one.model_dump(mode="json") for one in asked[0]]) != written(
        [one.model_dump(mode="json") for one in asked[1]]
    ):
        raise PageUnclearError("Expected the same checks in both sources, got different ones.")
    return asked[0]


def _asked(one: Implementation, level: Level, limits: Limits | None) -> tuple[CheckContent, ...]:
    run = run_isolated(f"SOURCE = {one.source!r}\n{EXTRACTOR}".encode(), level=level, limits=limits)
    if run.record.ending != "exited" or run.record.exit_code != 0:
        raise PageUnclearError(f"Expected the checks of {one.name} from its source, got none: {run.record.detail}.")
    try:
        found = tuple(CheckContent.model_validate(entry) for entry in json.loads(run.stdout))
    except (ValueError, TypeError, RecursionError) as error:
        raise PageUnclearError(f"Expected the checks of {one.name} from its source: {str(error)[:200]}.") from None
    table = [(label, written(expected)) for label, _, expected in _table(one)]
    if table != [(check.label, written(check.expected)) for check in found] or not found:
        raise PageUnclearError(f"Expected the checks of the table in the source of {one.name}, got others.")
    return found
