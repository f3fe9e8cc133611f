"""Our own implementation of a page's contract, answered to the page's own checks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shardproof.clip import clip_shards
from shardproof.errors import InvalidValueError, ShardproofError
from shardproof.failures.exact_json import equal, parsed, written
from shardproof.failures.page import Implementation, shown
from shardproof.isolation import Limits, run_isolated
from shardproof.records.isolation import Level
from shardproof.records.page import RepairCheck, RepairVerdict

CONTRACT = (
    "Given disjoint gradient shards and a nonnegative limit, return the same shard layout scaled by "
    "min(1, limit/global_L2_norm); zero norm uses scale one and results are rounded to 12 decimals."
)
DETAIL = 500
IMPLEMENTATION = "shardproof.clip.clip_shards"

# Runs in the isolated child: it evaluates the page's checks with recorders in place of `solve` and `check`, and
# leaves the answer and the comparison to us. What the page's source does instead is held like any other program.
EXTRACTOR = """
import ast, json
found = []
class Asked:
    def __init__(self, arguments):
        self.arguments = json.dumps(arguments)
def solve(*arguments):
    return Asked(arguments)
def check(label, actual, expected):
    asked = json.loads(actual.arguments) if isinstance(actual, Asked) else None
    found.append(json.dumps({"check": label, "arguments": asked, "expected": expected}))
def kept(node):
    if isinstance(node, ast.FunctionDef):
        return node.name not in ("solve", "check")
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return getattr(node.value.func, "id", None) != "print"
    return not isinstance(node, ast.Raise)
tree = ast.parse(SOURCE)
tree.body = [node for node in tree.body if kept(node)]
exec(compile(tree, "page", "exec"), {"__name__": "__main__", "solve": solve, "check": check})
print("[" + ",".join(found) + "]")
"""


def verify_repair(contract: str, implementation: Implementation, *, level: Level, limits: Limits) -> RepairVerdict:
    """Answer the checks of a page's source with our rule, in this process; the page's arguments come from a child.

    Returns:
        `passes` or `fails` over the page's checks; `could not tell` where they could not be read from the source
        or are not those of the table; `no repair of ours for this contract` for any other contract.
    """
    if _folded(contract) != _folded(CONTRACT):
        return RepairVerdict(
            status="no repair of ours for this contract",
            implementation=None,
            checks=(),
            detail="the page's contract is not one that shardproof implements",
        )
    try:
        checks = tuple(_answer(*asked) for asked in _asked(implementation, level, limits))
    except (InvalidValueError, RecursionError) as error:
        detail = shown(str(error))[:DETAIL]
        return RepairVerdict(status="could not tell", implementation=IMPLEMENTATION, checks=(), detail=detail)
    passed = sum(check.passed for check in checks)
    return RepairVerdict(
        status="passes" if passed == len(checks) else "fails",
        implementation=IMPLEMENTATION,
        checks=checks,
        detail=f"{IMPLEMENTATION} passes {passed} of {len(checks)} checks of the page",
    )


def _asked(implementation: Implementation, level: Level, limits: Limits) -> list[tuple[str, list[object], object]]:
    program = f"SOURCE = {implementation.source!r}\n{EXTRACTOR}".encode()
    run = run_isolated(program, level=level, limits=limits)
    if run.record.ending != "exited" or run.record.exit_code != 0:
        raise InvalidValueError(f"Expected the page's checks from its source, got none: {run.record.detail}.")
    asked = _entries(parsed(run.stdout.decode(errors="replace")))
    _expect_table(implementation, asked)
    return asked


def _entries(document: object) -> list[tuple[str, list[object], object]]:
    if not isinstance(document, list) or not document:
        raise InvalidValueError("Expected at least one check in the page's source, got none.")
    entries = []
    for entry in document:
        if not isinstance(entry, dict) or set(entry) != {"check", "arguments", "expected"}:
            raise InvalidValueError("Expected the page's checks from its source, got something else.")
        label, arguments = entry["check"], entry["arguments"]
        if not isinstance(label, str) or not isinstance(arguments, list) or len(arguments) != 2:
            raise InvalidValueError(f"Expected a check of solve(shards, limit), got {shown(str(label))!r}.")
        entries.append((shown(label), arguments, entry["expected"]))
    return entries


def _expect_table(implementation: Implementation, asked: Sequence[tuple[str, list[object], object]]) -> None:
    """The source could ask us easier checks than the page prints; only the printed ones count."""
    table = [(row.label, written(parsed(row.expected))) for row in implementation.rows]
    if table != [(label, written(expected)) for label, _, expected in asked]:
        raise InvalidValueError("Expected the checks of the page's table in its source, got others.")


def _answer(label: str, arguments: list[object], expected: object) -> RepairCheck:
    try:
        actual = clip_shards(*arguments)  # type: ignore[arg-type]
    except ShardproofError as error:
        said = shown(str(error))[:DETAIL]
        return RepairCheck(label=label, expected=written(expected), actual=said, passed=False)
    return RepairCheck(label=label, expected=written(expected), actual=written(actual), passed=equal(actual, expected))


def _folded(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()
