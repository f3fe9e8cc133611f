"""Grading: from a plan and the observations on disk to a verdict. Pure; neither torch nor the subject is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import shardproof
from shardproof.audit import checks, strict
from shardproof.audit.clauses import CALLS_RETURN, CLAUSES, STRICT, expected, tolerances_in_words
from shardproof.audit.endings import ended_badly
from shardproof.audit.layouts_compared import across_layouts
from shardproof.errors import InvalidValueError
from shardproof.records.audit import (
    CellObservation,
    CellPlan,
    CellVerdict,
    CellWord,
    ClauseVerdict,
    Finding,
    LayoutPlan,
    Plan,
    Profile,
    RankObservation,
    RunWord,
    Verdict,
)

LIMITS = (
    "No violation found means: none on these layouts, fixtures, world sizes, dtypes and versions. It is no proof.",
    "Ranks were CPU processes with gloo; nothing is said about other back ends, devices or speed.",
    "An in-process subject is trusted not to attack the harness: it runs in the process that reads its gradients.",
    "Gradients were set by the harness; backward, optimizer and training loop were not run. So mistakes of "
    "synchronisation, scale, accumulation and order (families C to F of the map) are out of a clip audit's scope, but "
    "for a clip without effect.",
)

JAX_RANKS = (
    "Ranks of a jax subject were simulated CPU devices of one process; what one device does alone, as leaving out a "
    "collective, cannot be seen there."
)
FILE_RANKS = (
    "Results came as files from a job that was not watched: which launcher, devices and versions it used, whether it "
    "clipped with the code in question, and hangs and crashes, are not known."
)

_EXIT: Mapping[RunWord, int] = {"held": 0, "violated": 1, "could not tell": 3, "nothing ran": 5}
VIOLATIONS: tuple[CellWord, ...] = ("fail", "error", "hang", "crash")
"""The verdicts that count against a subject."""


def grade(
    plan: Plan,
    plan_sha256: str,
    observations: Sequence[CellObservation],
    notes: Sequence[str] = (),
    *,
    profile: Profile = "core",
    waivers: Mapping[str, str] | None = None,
) -> Verdict:
    """Return the verdict on a run.

    Args:
        plan: what was to be run.
        plan_sha256: digest of plan.json, which every observation names.
        observations: any number for each planned cell; cells without one are `not run`, cells whose observations
            come to different verdicts are `flaky`.
        notes: what was noticed while reading the observations.
        profile: which clauses decide; with "core" the strict ones are graded and reported, and decide nothing.
        waivers: clause -> reason; a violation of such a clause is reported as waived, and decides nothing.

    Raises:
        InvalidValueError: a waiver names no clause.
    """
    waivers = dict(waivers or {})
    if unknown := [clause for clause in waivers if clause not in CLAUSES]:
        raise InvalidValueError(f"Expected clauses out of {', '.join(CLAUSES)}, got waivers for {unknown}.")
    seen = {cell.id: [each for each in observations if each.cell == cell.id] for cell in plan.cells}
    layouts = {layout.name: layout for layout in plan.layouts}
    graded = {
        cell.id: _repeated([_cell(cell, layouts[cell.layout], each, profile, waivers) for each in seen[cell.id]])
        or _verdict(cell, "not run", "no observation is stored")
        for cell in plan.cells
    }
    controls = {cell.layout: graded[cell.id] for cell in plan.cells if cell.control}
    cells = tuple(
        graded[cell.id] if cell.control else _against_control(graded[cell.id], controls.get(cell.layout))
        for cell in plan.cells
    )
    subjects = [cell for cell in cells if not cell.control]
    across = across_layouts(plan, seen, {cell.cell for cell in subjects if cell.verdict in ("pass", "fail")})
    outside = {cell.id for cell in plan.cells if any(each.status == "outside" for each in seen[cell.id])}
    asked = [cell for cell in subjects if cell.cell not in outside]
    word = _run_word(asked, across if profile == "strict" else (), waivers)
    return Verdict(
        run_id=plan.run_id,
        plan_sha256=plan_sha256,
        graded_by=f"shardproof {shardproof.__version__}",
        profile=profile,
        word=word,
        exit_code=_EXIT[word],
        planned=len(subjects),
        observed=sum(bool(seen[cell.cell]) for cell in subjects),
        counts=dict(Counter(cell.verdict for cell in subjects)),
        cells=cells,
        across=across,
        clauses=dict(CLAUSES),
        strict_clauses=tuple(clause for clause in CLAUSES if clause in STRICT),
        waivers=waivers,
        tolerances=tolerances_in_words(),
        limits=_limits(plan),
        notes=tuple(notes),
    )


def _limits(plan: Plan) -> tuple[str, ...]:
    frameworks = {subject.framework for subject in plan.subjects}
    first, ranks, trusted, *rest = LIMITS
    of_ranks = {"torch": ranks, "jax": JAX_RANKS, "files": FILE_RANKS}
    said = tuple(text for name, text in of_ranks.items() if name in frameworks)
    return (first, *(said or (ranks,)), *((trusted,) if frameworks != {"files"} else ()), *rest)


def is_violation(plan: Plan, cell: CellPlan, seen: CellObservation) -> bool:
    """Whether one observation, looked at alone, counts against its subject in core."""
    layout = next(layout for layout in plan.layouts if layout.name == cell.layout)
    return _cell(cell, layout, seen, "core", {}).verdict in VIOLATIONS


def _run_word(cells: Sequence[CellVerdict], across: Iterable[ClauseVerdict], waivers: Mapping[str, str]) -> RunWord:
    words = {cell.verdict for cell in cells}
    differing = any(each.outcome == "violated" and each.clause not in waivers for each in across)
    if words.intersection(VIOLATIONS) or differing:
        return "violated"
    if words <= {"not run", "skip"}:
        return "nothing ran"
    return "held" if words == {"pass"} else "could not tell"


def _against_control(cell: CellVerdict, control: CellVerdict | None) -> CellVerdict:
    """Nothing counts for or against a subject where the harness's own reference was not seen to pass."""
    if cell.verdict in ("not run", "skip") or (control is not None and control.verdict == "pass"):
        return cell
    why = f"{control.verdict}: {control.reason}" if control is not None else "not planned"
    reason = f"the control did not pass this layout ({why}); the subject: {cell.verdict}, {cell.reason}"
    return cell.model_copy(update={"verdict": "could not tell", "reason": reason})


def _repeated(verdicts: Sequence[CellVerdict]) -> CellVerdict | None:
    """The verdict that every repetition of a cell came to; flaky where they differ, None where there is none."""
    if len({_outcome(each) for each in verdicts}) <= 1:
        return verdicts[0].model_copy(update={"runs": len(verdicts)}) if verdicts else None
    each = "; ".join(f"run {number}: {one.verdict}, {one.reason}" for number, one in enumerate(verdicts, start=1))
    reason = f"{len(verdicts)} runs of the same cell came to different results: {each}"
    worst = next((one for one in verdicts if one.verdict != "pass"), verdicts[0])
    return worst.model_copy(update={"verdict": "flaky", "reason": reason, "runs": len(verdicts)})


def _outcome(cell: CellVerdict) -> tuple[object, ...]:
    return cell.verdict, *((each.clause, each.outcome) for each in cell.clauses)


def _cell(
    cell: CellPlan, layout: LayoutPlan, seen: CellObservation, profile: Profile, waivers: Mapping[str, str]
) -> CellVerdict:
    if seen.status in ("unavailable", "outside"):
        return _verdict(cell, "skip", seen.note or "unavailable")
    if seen.status == "harness failed":
        return _verdict(cell, "could not tell", seen.note or "the harness failed")
    wrong = checks.misplaced(layout, seen)
    if wrong is not None:
        return _verdict(cell, "could not tell", f"the layout was not what was planned: {wrong}")
    core = _core_only(layout, seen)
    bad = ended_badly(core.ranks)
    clauses = tuple(
        each.model_copy(update={"outcome": "waived"}) if each.outcome == "violated" and each.clause in waivers else each
        for each in (_calls_return(core, bad), *checks.clauses(layout, core), *_strict_clauses(layout, seen))
    )
    if bad is not None and CALLS_RETURN not in waivers:
        word, reason, ranks = bad
    else:
        word, reason, ranks = _graded(clauses, layout, core, profile)
    tolerances = [expected(layout, fixture) for fixture in checks.core(layout)]
    return _verdict(cell, word, reason, ranks).model_copy(
        update={
            "clauses": clauses,
            "norms": checks.norm_rows(layout, core),
            "norm_tolerance": max((each.norm_tolerance for each in tolerances), default=None),
            "element_tolerance": max((each.element_tolerance for each in tolerances), default=None),
        }
    )


def _core_only(layout: LayoutPlan, seen: CellObservation) -> CellObservation:
    """What was seen up to the last core call: how a strict call ended says nothing about core."""
    names = {fixture.name for fixture in checks.core(layout)}
    return seen.model_copy(update={"ranks": tuple(_core_rank(rank, names) for rank in seen.ranks)})


def _core_rank(rank: RankObservation, core: set[str]) -> RankObservation:
    calls = tuple(call for call in rank.calls if call.fixture in core)
    ended = {} if len(calls) == len(rank.calls) else {"exit_code": None, "signal": None}
    return rank.model_copy(update={"calls": calls, **ended})


def _strict_clauses(layout: LayoutPlan, seen: CellObservation) -> tuple[ClauseVerdict, ...]:
    made = list(strict.checks(layout, seen))
    return tuple(checks.verdict_on(clause, made) for clause in CLAUSES if clause in STRICT - {"bits.across-layouts"})


def _calls_return(seen: CellObservation, bad: tuple[CellWord, str, tuple[int, ...]] | None) -> ClauseVerdict:
    made = [
        checks.Check(CALLS_RETURN, None) for rank in seen.ranks for call in rank.calls if call.outcome == "returned"
    ]
    for rank in bad[2] if bad else ():
        fixture = next((call.fixture for call in reversed(seen.ranks[rank].calls)), "")
        text = f"{bad[0]}: {bad[1]}" if bad else ""
        made.append(checks.Check(CALLS_RETURN, Finding(fixture=fixture, rank=rank, text=text)))
    return checks.verdict_on(CALLS_RETURN, made)


def _verdict(cell: CellPlan, word: CellWord, reason: str, ranks: tuple[int, ...] = ()) -> CellVerdict:
    return CellVerdict(
        cell=cell.id,
        subject=cell.subject,
        layout=cell.layout,
        control=cell.control,
        verdict=word,
        reason=reason,
        ranks=ranks,
    )


def _graded(
    clauses: tuple[ClauseVerdict, ...], layout: LayoutPlan, seen: CellObservation, profile: Profile
) -> tuple[CellWord, str, tuple[int, ...]]:
    deciding = [clause for clause in clauses if profile == "strict" or clause.profile == "core"]
    violated = [clause for clause in deciding if clause.outcome == "violated"]
    if violated:
        firsts = [f"{each.clause}: {each.first.text}" for each in violated if each.first]
        ranks = sorted({rank for each in violated for rank in each.ranks})
        return "fail", "; ".join(firsts), tuple(ranks)
    planned = {fixture.name for fixture in checks.core(layout)}
    made = [{call.fixture for call in rank.calls} for rank in seen.ranks]
    if len(seen.ranks) != layout.world_size or any(calls != planned for calls in made):
        why = f": {seen.note}" if seen.note else ""
        return "could not tell", f"not every planned call was observed on every rank{why}", ()
    if not any(clause.checks for clause in deciding):
        return "could not tell", "no check was made", ()
    waived = [clause.clause for clause in deciding if clause.outcome == "waived"]
    beside = f"; waived: {', '.join(waived)}" if waived else ""
    return "pass", f"no violation found in {sum(clause.checks for clause in deciding)} checks{beside}", ()
