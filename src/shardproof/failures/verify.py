"""Verifying a published page: digests recomputed, both sources run isolated, every observation compared."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.failures.compare import compare_exit, compare_rows, compare_shape, unobserved
from shardproof.failures.environment import environment
from shardproof.failures.observed import Claims, read_claims
from shardproof.failures.ours import verify_repair
from shardproof.failures.page import Implementation, Page, parse_page, read_page, shown
from shardproof.isolation import Limits, Run, run_isolated
from shardproof.records.isolation import Level, RunRecord
from shardproof.records.page import (
    Digest,
    ExitCode,
    ImplementationVerdict,
    Observation,
    PageFacts,
    PageVerdict,
    PageWord,
    RepairVerdict,
)

OWN_DOING = ("exited", "signal", "left processes")
"""Endings that are the program's own, so that a record that says otherwise is contradicted."""
TOO_OLD = ("SyntaxError", "ModuleNotFoundError", "ImportError")
"""Last words of a program that needs a newer Python."""


def verify_page(path: Path | str, *, level: Level = "process", limits: Limits | None = None) -> PageVerdict:
    """Verify a page of the Failure Map by running it, and return all that was seen.

    A source whose digest does not match is run all the same, isolated: the verdict is `mismatch`, and the record
    still says what the changed source does.

    Args:
        path: the page as text, with its exact bytes.
        level: how the page's programs are held.
        limits: what each program may use.

    Returns:
        The verdict: `mismatch` when a source digest does not match; else `violated` when anything recorded was not
        reproduced or our repair fails a check; else `could not tell` when something could not be observed; else
        `held`.

    Raises:
        InvalidValueError: the file is no such page; the message names the missing section.
        IsolationUnavailableError: the level cannot be had here.
    """
    path, limits = Path(path), limits or Limits()
    data = read_page(path)
    page = parse_page(data)
    verdicts = tuple(_verify(one, page.facts, level, limits) for one in page.implementations)
    repair = verify_repair(page.facts.contract, page.implementations[0], level=level, limits=limits)
    seen = [observation for one in verdicts for observation in one.observations]
    return PageVerdict(
        file=shown(path.name),
        file_sha256=hashlib.sha256(data).hexdigest(),
        page=page.facts,
        implementations=verdicts,
        repair=repair,
        agreeing=sum(observation.agrees is True for observation in seen),
        observations=len(seen),
        notes=tuple(_notes(page)),
        verdict=_word(verdicts, repair),
        environment=environment(),
    )


def _verify(one: Implementation, facts: PageFacts, level: Level, limits: Limits) -> ImplementationVerdict:
    computed = hashlib.sha256(one.source).hexdigest()
    run = run_isolated(one.source, level=level, limits=limits)
    claims, problem = _claims(run)
    unclear = _unclear(run.record, facts)
    exit_code = compare_exit(one.exit_text, None if unclear else run.record.exit_code)
    if claims is None:
        observations = unobserved(one.rows, None if unclear else problem)
    else:
        observations = compare_rows(one.rows, claims)
    return ImplementationVerdict(
        number=one.number,
        name=one.name,
        digest=Digest(recorded=one.digest, computed=computed, agrees=one.digest == computed),
        exit_code=exit_code,
        run=run.record,
        observations=observations,
        differences=tuple(
            _differences(one, run.record, claims, exit_code, observations, facts.checks_per_implementation)
        ),
        unclear=unclear,
    )


def _claims(run: Run) -> tuple[Claims | None, str]:
    if run.record.ending not in OWN_DOING:
        return None, run.record.detail
    try:
        return read_claims(run.stdout), ""
    except InvalidValueError as error:
        return None, f"not observed: {shown(str(error))}"


def _unclear(run: RunRecord, facts: PageFacts) -> tuple[str, ...]:
    said = [] if run.ending in OWN_DOING else [run.detail]
    if run.unkilled_processes:
        said.append(f"{run.unkilled_processes} of its processes could not be killed")
    last = run.stderr_tail.strip().rpartition("\n")[2]
    recorded, here = _minor(facts.recorded_python), _minor(platform.python_version())
    if run.exit_code and last.startswith(TOO_OLD) and recorded and here and recorded > here:
        said.append(f"recorded with Python {facts.recorded_python}, this is older and says: {last[:200]}")
    return tuple(said)


def _differences(
    one: Implementation,
    run: RunRecord,
    claims: Claims | None,
    exit_code: ExitCode,
    observations: Sequence[Observation],
    checks: int,
) -> list[str]:
    said = []
    if exit_code.agrees is False:
        said.append(f"exit: recorded {exit_code.recorded!r}, observed Exit {exit_code.observed}")
    if run.ending in ("signal", "left processes"):
        said.append(f"recorded {one.exit_text!r}, observed: {run.detail}")
    if run.wrote_elsewhere:
        said.append(f"it wrote outside its folder: {', '.join(run.wrote_elsewhere[:5])}")
    if claims:
        said += compare_shape(one.rows, claims, checks)
        said += [claims.total] if claims.total else []
        if run.exit_code is not None and (run.exit_code == 0) != claims.all_passed:
            passed = "all its checks pass" if claims.all_passed else "not all its checks pass"
            said.append(f"it exits {run.exit_code} although {passed}")
    elif len(one.rows) != checks:
        said.append(f"the table has {len(one.rows)} checks, the page says {checks} per implementation")
    return said + [
        f"row {index} {_label(row)!r}: {difference}"
        for index, row in enumerate(observations, 1)
        for difference in row.differs
    ]


def _label(observation: Observation) -> str:
    row = observation.recorded or observation.observed
    return row.label if row else ""


def _word(verdicts: Sequence[ImplementationVerdict], repair: RepairVerdict) -> PageWord:
    if not all(one.digest.agrees for one in verdicts):
        return "mismatch"
    if any(one.differences for one in verdicts) or repair.status == "fails":
        return "violated"
    if any(one.unclear for one in verdicts) or repair.status == "could not tell":
        return "could not tell"
    # Nothing differs and nothing is unclear, yet "held" needs that something was seen to agree.
    seen = [observation for one in verdicts for observation in one.observations]
    exits = all(one.exit_code.agrees for one in verdicts)
    return "held" if seen and exits and all(row.agrees for row in seen) else "could not tell"


def _notes(page: Page) -> list[str]:
    recorded, here = page.facts.recorded_python, platform.python_version()
    if _minor(recorded) == _minor(here):
        return []
    return [
        f"recorded with Python {recorded}, run with {here}: floats can differ where the language changed "
        "(sum() of floats is compensated since 3.12)"
    ]


def _minor(text: str) -> tuple[int, int] | None:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", text)
    return (int(found[1]), int(found[2])) if found else None
