"""Grading: from a plan and the observations on disk to a verdict. Pure; neither torch nor the subject is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import shardproof
from shardproof.audit import checks
from shardproof.audit.clauses import CLAUSES, expected, tolerances_in_words
from shardproof.records.audit import (
    CellObservation,
    CellPlan,
    CellVerdict,
    CellWord,
    ClauseVerdict,
    LayoutPlan,
    NormRow,
    Plan,
    RankObservation,
    RunWord,
    Verdict,
)

LIMITS = (
    "No violation found means: none on these layouts, fixtures, world sizes, dtypes and versions. It is no proof.",
    "Ranks were CPU processes with gloo; nothing is said about other back ends, devices or speed.",
    "An in-process subject is trusted not to attack the harness: it runs in the process that reads its gradients.",
    "Gradients were set by the harness; backward, optimizer and training loop were not run.",
)

_EXIT: Mapping[RunWord, int] = {"held": 0, "violated": 1, "could not tell": 3, "nothing ran": 5}
_VIOLATIONS: tuple[CellWord, ...] = ("fail", "error", "hang", "crash")


def grade(plan: Plan, plan_sha256: str, observations: Sequence[CellObservation], notes: Sequence[str] = ()) -> Verdict:
    """Return the verdict on a run.

    Args:
        plan: what was to be run.
        plan_sha256: digest of plan.json, which every observation names.
        observations: at most one for each planned cell; cells without one are `not run`.
        notes: what was noticed while reading the observations.
    """
    seen = {observation.cell: observation for observation in observations}
    layouts = {layout.name: layout for layout in plan.layouts}
    controls = {
        cell.layout: _cell(cell, layouts[cell.layout], seen.get(cell.id)) for cell in plan.cells if cell.control
    }
    cells = tuple(
        controls[cell.layout]
        if cell.control
        else _against_control(_cell(cell, layouts[cell.layout], seen.get(cell.id)), controls.get(cell.layout))
        for cell in plan.cells
    )
    subjects = [cell for cell in cells if not cell.control]
    word = _run_word(subjects)
    return Verdict(
        run_id=plan.run_id,
        plan_sha256=plan_sha256,
        graded_by=f"shardproof {shardproof.__version__}",
        word=word,
        exit_code=_EXIT[word],
        planned=len(subjects),
        observed=sum(cell.cell in seen for cell in subjects),
        counts=dict(Counter(cell.verdict for cell in subjects)),
        cells=cells,
        clauses=dict(CLAUSES),
        tolerances=tolerances_in_words(),
        limits=LIMITS,
        notes=tuple(notes),
    )


def _run_word(cells: Sequence[CellVerdict]) -> RunWord:
    words = {cell.verdict for cell in cells}
    if words.intersection(_VIOLATIONS):
        return "violated"
    if not words or words <= {"not run"}:
        return "nothing ran"
    return "held" if words == {"pass"} else "could not tell"


def _against_control(cell: CellVerdict, control: CellVerdict | None) -> CellVerdict:
    """Nothing counts for or against a subject where the harness's own reference was not seen to pass."""
    if cell.verdict in ("not run", "skip") or (control is not None and control.verdict == "pass"):
        return cell
    why = f"{control.verdict}: {control.reason}" if control is not None else "not planned"
    reason = f"the control did not pass this layout ({why}); the subject: {cell.verdict}, {cell.reason}"
    return cell.model_copy(update={"verdict": "could not tell", "reason": reason})


def _cell(cell: CellPlan, layout: LayoutPlan, seen: CellObservation | None) -> CellVerdict:
    if seen is None:
        return _verdict(cell, "not run", "no observation is stored")
    if seen.status == "unavailable":
        return _verdict(cell, "skip", seen.note or "unavailable")
    if seen.status == "harness failed":
        return _verdict(cell, "could not tell", seen.note or "the harness failed")
    wrong = checks.misplaced(layout, seen)
    if wrong is not None:
        return _verdict(cell, "could not tell", f"the layout was not what was planned: {wrong}")
    clauses, norms = checks.clauses(layout, seen), checks.norm_rows(layout, seen)
    word, reason, ranks = _ended_badly(seen.ranks) or _graded(clauses, layout, seen)
    tolerances = [expected(layout, fixture) for fixture in layout.fixtures]
    return _verdict(cell, word, reason, ranks).model_copy(
        update={
            "clauses": clauses,
            "norms": norms,
            "norm_tolerance": max((each.norm_tolerance for each in tolerances), default=None),
            "element_tolerance": max((each.element_tolerance for each in tolerances), default=None),
        }
    )


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
    clauses: tuple[ClauseVerdict, ...], layout: LayoutPlan, seen: CellObservation
) -> tuple[CellWord, str, tuple[int, ...]]:
    violated = [clause for clause in clauses if clause.outcome == "violated"]
    if violated:
        firsts = [f"{each.clause}: {each.first.text}" for each in violated if each.first]
        ranks = sorted({rank for each in violated for rank in each.ranks})
        return "fail", "; ".join(firsts), tuple(ranks)
    planned = {fixture.name for fixture in layout.fixtures}
    made = [{call.fixture for call in rank.calls} for rank in seen.ranks]
    if len(seen.ranks) != layout.world_size or any(calls != planned for calls in made):
        return "could not tell", "not every planned call was observed on every rank", ()
    if not any(clause.checks for clause in clauses):
        return "could not tell", "no check was made", ()
    return "pass", f"no violation found in {sum(clause.checks for clause in clauses)} checks", ()


def _ended_badly(ranks: Sequence[RankObservation]) -> tuple[CellWord, str, tuple[int, ...]] | None:
    """The verdict on calls that did not all return: crash before error before hang, as each may cause the next."""
    dead = [rank for rank in ranks if rank.exit_code is not None]
    if dead:
        return "crash", _crash(dead), tuple(rank.rank for rank in dead)
    unloaded = [rank for rank in ranks if rank.import_error is not None]
    if unloaded:
        reason = f"import failed on {_listed(unloaded)}: {_last_line(unloaded[0].import_error)}"
        return "error", reason, tuple(rank.rank for rank in unloaded)
    raised = [rank for rank in ranks if _outcome(rank, "raised")]
    if raised:
        call = next(call for call in raised[0].calls if call.outcome == "raised")
        reason = f"{call.fixture}: {_listed(raised)} raised {_short(call.error or '')}"
        return "error", reason, tuple(rank.rank for rank in raised)
    return _hang(ranks)


def _hang(ranks: Sequence[RankObservation]) -> tuple[CellWord, str, tuple[int, ...]] | None:
    waited = [rank for rank in ranks if _outcome(rank, "collective timeout")]
    stuck = [rank for rank in ranks if _outcome(rank, "did not return")]
    importing = [rank for rank in ranks if rank.stage == "importing the subject"]
    if not (waited or stuck or importing):
        return None
    fixture = next((rank.calls[-1].fixture for rank in [*waited, *stuck]), "import")
    parts = [f"{_listed(stuck)} did not come back ({stuck[0].calls[-1].stage})"] if stuck else []
    parts += [f"{_listed(waited)} waited in a collective until it timed out"] if waited else []
    parts += [f"{_listed(importing)} did not finish importing the subject"] if importing else []
    back = [rank for rank in ranks if rank not in [*waited, *stuck, *importing]]
    parts += [f"{_listed(back)} had returned"] if back else []
    named = tuple(sorted(rank.rank for rank in [*waited, *stuck, *importing]))
    return "hang", f"{fixture}: {', '.join(parts)}", named


def _crash(dead: Sequence[RankObservation]) -> str:
    first = dead[0]
    how = f"was ended by {first.signal}" if first.signal else f"ended with exit code {first.exit_code}"
    where = f"{first.calls[-1].fixture}: " if first.calls else ""
    return f"{where}rank {first.rank} {how} ({first.stage})" + (
        f"; so did {_listed(dead[1:])}" if len(dead) > 1 else ""
    )


def _outcome(rank: RankObservation, outcome: str) -> bool:
    return any(call.outcome == outcome for call in rank.calls)


def _listed(ranks: Sequence[RankObservation]) -> str:
    numbers = ", ".join(str(rank.rank) for rank in ranks)
    return f"rank {numbers}" if len(ranks) == 1 else f"ranks {numbers}"


def _last_line(text: str | None) -> str:
    return _short((text or "").strip().rpartition("\n")[2])


def _short(text: str) -> str:
    first = " ".join(text.split())
    return first if len(first) <= 200 else first[:197] + "..."


__all__ = ["LIMITS", "NormRow", "grade"]
