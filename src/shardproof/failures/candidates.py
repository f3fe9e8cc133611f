"""Judging a candidate repair: it runs isolated, the expected values stay here and are compared here."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.failures.channel import IMPORTABLE, Answer, heard, program
from shardproof.failures.environment import environment
from shardproof.failures.mechanism import Check, Mechanism, Member, checks_of, member_of
from shardproof.failures.plan import load, plan_case
from shardproof.failures.values import plain, same
from shardproof.isolation import Limits, Run, run_isolated
from shardproof.records.isolation import Level
from shardproof.records.map_share import TriedCheck, TriedPart, TryRecord, TryWord

LARGEST = 256 * 1024
UNSEEN = 3
"""Variants beside the published ones that --held-back asks."""
SHOWN = 2000
TRY_LIMITS = Limits(wall_s=20.0, cpu_s=10)
OUR_DOING = ("not started", "supervisor lost")
"""Endings that say nothing about the candidate."""


class HeldBackError(InvalidValueError):
    """Held-back checks were asked for and are not here."""


@dataclasses.dataclass(frozen=True)
class Part:
    """Checks that are asked in one run; the rows of a secret part are counted and not shown."""

    name: str
    checks: tuple[Check, ...]
    secret: bool


def read_candidate(path: Path) -> bytes:
    """Return the bytes of a candidate's file.

    Raises:
        InvalidValueError: it cannot be read, is no regular file, or is larger than 256 KiB.
    """
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            raise InvalidValueError(f"Expected a Python file of at most {LARGEST} bytes, got {path}.")
        return path.read_bytes()
    except OSError as error:
        raise InvalidValueError(f"Expected a readable candidate, got {path}: {error.strerror}.") from error


def judge_candidate(
    mechanism: Mechanism,
    name: str,
    n: int,
    candidate: bytes,
    *,
    members: Path | None,
    held_back: bool = False,
    level: Level = "process",
    limits: Limits = TRY_LIMITS,
) -> TryRecord:
    """Ask a candidate the checks of a case and judge what it gives back.

    Args:
        mechanism: whose contract the candidate is to meet.
        name: the case's id.
        n: its variant.
        candidate: the source, which defines solve.
        members: the folder of repairs, for the held-back checks.
        held_back: ask the held-back checks, and all checks of variants that are not published, too.
        level: how the candidate is held; `none` is refused, since it could read the answers.
        limits: what it may use.

    Returns:
        The record: `passes` when every check of every part was answered as expected, `could not tell` when a run
        did not come about.

    Raises:
        HeldBackError: held-back checks were asked for and there are none.
        InvalidValueError: the level is `none`, or a file of the catalogue cannot be read.
        IsolationUnavailableError: the level cannot be had here.
    """
    if level == "none":
        raise InvalidValueError("Expected level process or namespaces, got level='none': it holds nothing back.")
    plan = plan_case(load(mechanism, None), name, n)
    parts = [Part("visible checks", checks_of(mechanism.folder / "checks.py", n), False)]
    parts += _held_back(mechanism, n, members) if held_back else []
    tried = tuple(
        _tried(part, run_isolated(program(candidate, part.checks), level=level, limits=limits)) for part in parts
    )
    return TryRecord(
        id=name,
        mechanism=mechanism.slug,
        variant=n,
        case_digest=plan.digest,
        candidate_sha256=hashlib.sha256(candidate).hexdigest(),
        level=level,
        held_back=held_back,
        parts=tried,
        asked=sum(part.asked for part in tried),
        passed=sum(part.passed for part in tried),
        verdict=_word(tried),
        environment=environment(),
    )


def unseen_variants(mechanism: Mechanism, repair: bytes) -> list[int]:
    """Variants that are not published, drawn by the repair's own bytes: nobody without it can know them."""
    found: list[int] = []
    for turn in range(1000):
        n = 1 + int.from_bytes(hashlib.sha256(b"%d|" % turn + repair).digest()[:8], "big") % 1000
        if n not in mechanism.says.variants and n not in found:
            found.append(n)
        if len(found) == UNSEEN:
            break
    return sorted(found)


def _held_back(mechanism: Mechanism, n: int, members: Path | None) -> list[Part]:
    member = member_of(mechanism.slug, members)
    if member is None:
        raise HeldBackError(f"Expected what is held back of {mechanism.slug}, got none: members/ is not here.")
    parts = [Part("held-back checks", checks_of(member.held_back, n), True)] if member.held_back else []
    numbers = unseen_variants(mechanism, member.repair.read_bytes())
    checks = tuple(check for number in numbers for check in _all_checks(mechanism, member, number))
    return [*parts, Part("unseen variants", checks, True)]


def _all_checks(mechanism: Mechanism, member: Member, n: int) -> tuple[Check, ...]:
    hidden = checks_of(member.held_back, n) if member.held_back else ()
    return checks_of(mechanism.folder / "checks.py", n) + hidden


def _tried(part: Part, run: Run) -> TriedPart:
    said = heard(run.stdout, len(part.checks))
    unclear = _unclear(run, said.ready)
    rows = [
        TriedCheck(check=check.label, actual=_shown(answer), passed=_passed(answer, check) and not unclear)
        for check, answer in zip(part.checks, said.answers, strict=True)
    ]
    problems = [] if unclear else [*_problems(run), *(_explained(one) for one in said.problems)]
    # A candidate chooses the texts of its errors: of a secret part they could carry the arguments out.
    problems = ["it did not answer as it should"] if part.secret and problems else problems
    return TriedPart(
        name=part.name,
        asked=len(rows),
        passed=sum(row.passed for row in rows),
        checks=() if part.secret else tuple(rows),
        ending=run.record.ending,
        exit_code=run.record.exit_code,
        detail=run.record.detail if not part.secret else f"it ended so: {run.record.ending}",
        problems=tuple(problems),
        unclear=tuple(unclear),
    )


def _passed(answer: Answer | None, check: Check) -> bool:
    if answer is None:
        return False
    expected = plain(check.expected)
    if isinstance(expected, dict) and set(expected) == {"raises"}:
        return bool(answer.raises == expected["raises"])
    return answer.raises is None and same(answer.value, expected)


def _unclear(run: Run, ready: bool) -> list[str]:
    record = run.record
    if record.ending in OUR_DOING:
        return [record.detail]
    said = ["some of its processes could not be killed"] if record.unkilled_processes else []
    if record.isolation.achieved == "process" and os.geteuid() == 0 and record.isolation.user is None:
        said.append("it ran as root, which can lift the limit on opening files")
    return said + ([] if ready else [f"it could not be kept from opening files: {record.detail}"])


def _problems(run: Run) -> list[str]:
    record = run.record
    said = [] if record.ending == "exited" and record.exit_code == 0 else [f"it ended early: {record.detail}"]
    return said + ([f"it wrote {', '.join(record.wrote_elsewhere[:5])}"] if record.wrote_elsewhere else [])


def _explained(problem: str) -> str:
    if problem.startswith("its module raises") and ("Too many open files" in problem or "NotFound" in problem):
        return f"{problem}; it can import: {', '.join(IMPORTABLE)}"
    return problem


def _shown(answer: Answer | None) -> str | None:
    if answer is None:
        return None
    text = json.dumps({"raises": answer.raises} if answer.raises is not None else answer.value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _word(parts: Sequence[TriedPart]) -> TryWord:
    if any(part.unclear for part in parts):
        return "could not tell"
    whole = all(part.passed == part.asked and not part.problems for part in parts)
    return "passes" if whole and parts and all(part.asked for part in parts) else "fails"
