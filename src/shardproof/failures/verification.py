"""Verifying cases by running their programs: from plans to results, with what is known already left out."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from shardproof.failures.environment import environment
from shardproof.failures.judge import judge_program, judge_roles, misremembered, word
from shardproof.failures.kept import Before, cached, remember
from shardproof.failures.plan import Plan
from shardproof.failures.running import run_all
from shardproof.isolation import Limits, Run
from shardproof.records.isolation import Isolation, Level
from shardproof.records.map import CaseResult, MapSummary


@dataclasses.dataclass(frozen=True)
class Effort:
    """How cases are verified.

    Attributes:
        level: how programs are held.
        jobs: programs that run at the same time.
        repeat: times that each program is run; all must give the same.
        cache: where unchanged cases are remembered; None: nowhere.
        fresh: the cache is not read.
        limits: what each program may use.
        scheduler: the Dask cluster that runs them; it decides how many at a time, whatever `jobs` says.
    """

    level: Level = "process"
    jobs: int = 1
    repeat: int = 1
    cache: Path | None = None
    fresh: bool = False
    limits: Limits | None = None
    scheduler: str | None = None


@dataclasses.dataclass
class _Tally:
    """What has come so far; counts only, so that memory does not grow with the number of cases."""

    words: dict[str, int] = dataclasses.field(default_factory=dict)
    programs: int = 0
    ran: int = 0
    from_cache: int = 0
    resumed: int = 0
    held_back: int = 0
    isolation: Isolation | None = None

    def count(self, verdict: str, programs: int, held_back: bool) -> None:
        self.words[verdict] = self.words.get(verdict, 0) + 1
        self.programs += programs
        self.held_back += held_back

    def count_result(self, result: CaseResult) -> None:
        self.count(result.verdict, len(result.programs), result.repair == "held back")


def verify_cases(
    plans: Iterable[Plan],
    effort: Effort,
    *,
    sink: Callable[[CaseResult], None],
    known: Mapping[str, Before] | None = None,
) -> MapSummary:
    """Run every planned case that is not known, judge it, and hand each result to `sink` as it is had.

    Args:
        plans: taken from as room is free, so that ten thousand of them need no memory.
        effort: level, jobs, repeats and cache.
        sink: called once for each case, in the order in which they end.
        known: what an earlier run left, by key; handed to `sink` no more.

    Returns:
        The counts and the verdict over all cases.

    Raises:
        IsolationUnavailableError: the level cannot be had here.
        RuntimeError: a program was lost on the way, which is our own fault.
    """
    tally, opened = _Tally(), {}
    known = known or {}

    def programs() -> Iterator[tuple[tuple[int, int], bytes]]:
        for number, plan in enumerate(plans):
            if _spared(plan, effort, known, tally, sink):
                continue
            opened[number] = _Open(plan, tuple([] for _ in plan.programs))
            for at, program in enumerate(plan.programs):
                for _ in range(effort.repeat):
                    yield (number, at), program.source

    running = run_all(
        programs(),
        level=effort.level,
        jobs=effort.jobs,
        limits=effort.limits,
        repeated=effort.repeat > 1,
        scheduler=effort.scheduler,
    )
    for (number, at), run in running:
        tally.isolation = tally.isolation or run.record.isolation
        case = opened[number]
        case.runs[at].append(run)
        if all(len(runs) == effort.repeat for runs in case.runs):
            result = _result(opened.pop(number), effort)
            tally.ran += 1
            tally.count_result(result)
            if effort.cache is not None:
                remember(effort.cache, result)
            sink(result)
    if opened:
        names = ", ".join(case.plan.content.id for case in list(opened.values())[:5])
        raise RuntimeError(f"Expected every program to end, got none of the verdicts of {len(opened)} cases: {names}.")
    return _summary(tally)


@dataclasses.dataclass(frozen=True)
class _Open:
    plan: Plan
    runs: tuple[list[Run], ...]


def _spared(
    plan: Plan, effort: Effort, known: Mapping[str, Before], tally: _Tally, sink: Callable[[CaseResult], None]
) -> bool:
    """Count a case that was verified before, by a killed run or by one that the cache remembers."""
    key = plan.key(effort.level)
    before = known.get(key)
    if before is not None and before.runs >= effort.repeat:
        tally.resumed += 1
        tally.count("held", before.programs, before.held_back)
        return True
    hit = None if effort.fresh or effort.cache is None else cached(effort.cache, key)
    if hit is None or misremembered(hit, plan) or any(program.runs < effort.repeat for program in hit.programs):
        return False
    tally.from_cache += 1
    tally.count_result(hit)
    sink(hit)
    return True


def _result(case: _Open, effort: Effort) -> CaseResult:
    plan, content = case.plan, case.plan.content
    results = tuple(judge_program(program, runs) for program, runs in zip(plan.programs, case.runs, strict=True))
    observed = all(one.observations for one in results)
    broken = judge_roles(plan, results) if observed else plan.broken
    return CaseResult(
        id=content.id,
        mechanism=content.mechanism,
        family=content.family,
        variant=content.variant,
        case_digest=plan.digest,
        key=plan.key(effort.level),
        level=case.runs[0][0].record.isolation.achieved,
        repair="run" if any(one.role == "repair" for one in results) else "held back",
        programs=results,
        broken=broken,
        verdict=word(results, broken),
        python=platform.python_version(),
        platform=platform.platform(),
        time=datetime.now(UTC).isoformat(),
    )


def _summary(tally: _Tally) -> MapSummary:
    held, violated, unclear = (tally.words.get(one, 0) for one in ("held", "violated", "could not tell"))
    cases = held + violated + unclear
    return MapSummary(
        cases=cases,
        programs=tally.programs,
        held=held,
        violated=violated,
        could_not_tell=unclear,
        ran=tally.ran,
        from_cache=tally.from_cache,
        resumed=tally.resumed,
        repair_held_back=tally.held_back,
        verdict="nothing ran" if not cases else "violated" if violated else "could not tell" if unclear else "held",
        isolation=tally.isolation,
        environment=environment(),
    )
