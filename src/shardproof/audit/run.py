"""Running an audit: plan it, run cell by cell, store what was seen, and only then grade what is on disk."""

from __future__ import annotations

import importlib.util
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shardproof.audit import store
from shardproof.audit.apart import tell_apart
from shardproof.audit.diagnosis import Graded, diagnose
from shardproof.audit.environment import environment, now
from shardproof.audit.fixtures import fixtures
from shardproof.audit.grade import grade, is_violation
from shardproof.audit.layouts import LAYOUTS, Layout, shares, tied, told
from shardproof.audit.orders import checked_order
from shardproof.audit.plan_check import changed
from shardproof.audit.ranks import Outcome, observe_cell
from shardproof.audit.subjects import BUILT_IN, CONTROL, missing, outside, parse
from shardproof.errors import InvalidValueError
from shardproof.failures import lowered
from shardproof.records.audit import (
    AuditReport,
    CellObservation,
    CellPlan,
    CellVerdict,
    Diagnosis,
    FixturePlan,
    LayoutPlan,
    PiecePlan,
    Plan,
    Profile,
    SubjectPlan,
    TensorPlan,
    Verdict,
)

APART: Final = "apart"
"""The folder inside a run's folder of what was run only to tell candidates of a diagnosis apart."""
FEW, SMALL = 3, 4
"""How many layouts of how many ranks at most are run for that."""


@dataclass(frozen=True)
class Progress:
    """What is about to run, for a progress line."""

    number: int
    total: int
    subject: str
    layout: str


def plan_of(
    subjects: Sequence[str],
    layouts: Sequence[Layout],
    *,
    timeout_s: float,
    command: Sequence[str] = (),
    norm_type: float = 2.0,
) -> Plan:
    """Decide what is going to be run; raises InvalidValueError for a subject that can be seen to be wrong."""
    checked_order(norm_type)
    if not 0 < timeout_s <= 3600:
        raise InvalidValueError(f"Expected a timeout in (0, 3600] seconds, got timeout={timeout_s!r}.")
    parsed = told_apart({subject.spec: subject for subject in map(parse, subjects)}.values())
    cells = [
        CellPlan(id=f"{name}/{layout.name}", subject=name, layout=layout.name, control=name == CONTROL)
        for layout in layouts
        for name in (CONTROL, *(subject.name for subject in parsed))
    ]
    return Plan(
        run_id=uuid.uuid4().hex,
        command=tuple(command),
        timeout_s=timeout_s,
        subjects=parsed,
        layouts=tuple(layout_plan(layout, norm_type) for layout in layouts),
        cells=tuple(cells),
    )


def norm_type_of(plan: Plan) -> float:
    """The order of the norm that a plan asks for; 2.0 where it makes no call."""
    return next((_order(layout) for layout in plan.layouts), 2.0)


def told_apart(subjects: Iterable[SubjectPlan]) -> tuple[SubjectPlan, ...]:
    """The subjects, named by their whole spec where two files of the same name would look alike."""
    listed = tuple(subjects)
    names = Counter(subject.name for subject in listed)
    return tuple(
        subject if names[subject.name] == 1 else subject.model_copy(update={"name": subject.spec}) for subject in listed
    )


def begin(folder: Path, plan: Plan) -> None:
    """Store the plan of a run in a new folder, before anything runs."""
    if importlib.util.find_spec("torch") is None:
        raise InvalidValueError("Expected torch to be installed, got none: pip install 'shardproof[torch]'.")
    store.begin(folder, plan, environment())


def go_on(
    folder: Path,
    progress: Callable[[Progress], None] = lambda step: None,
    *,
    repeat: int = 1,
    profile: Profile = "core",
    waivers: Mapping[str, str] | None = None,
) -> Verdict:
    """Run the cells of a stored run that were not observed often enough, grade all of them and return the verdict.

    A cell is observed `repeat` times, and twice where a subject's first observation was no pass: what does not come
    out the same twice is flaky. What was observed before an interruption stays, and can be graded or resumed.
    """
    if repeat < 1:
        raise InvalidValueError(f"Expected to observe each cell at least once, got repeat={repeat}.")
    with store.alone(folder):
        return _go_on(folder, progress, repeat, profile, waivers)


def _go_on(
    folder: Path,
    progress: Callable[[Progress], None],
    repeat: int,
    profile: Profile,
    waivers: Mapping[str, str] | None,
) -> Verdict:
    plan, digest = store.read_plan(folder)
    if any(subject.framework == "files" for subject in plan.subjects):
        raise InvalidValueError(f"Expected a run, got the export {folder}. Run its job, then `audit grade`.")
    store.drop_cut_line(folder)
    observed: dict[str, list[CellObservation]] = {}
    for each in store.read_observations(folder, plan, digest)[0]:
        observed.setdefault(each.cell, []).append(each)
    specs = {CONTROL: CONTROL} | {subject.name: subject.spec for subject in plan.subjects}
    missing = [cell for cell in plan.cells if _lacking(cell, plan, observed.get(cell.id, []), repeat)]
    _still_as_planned(plan, missing)
    try:
        for number, cell in enumerate(missing, start=len(plan.cells) - len(missing) + 1):
            progress(Progress(number, len(plan.cells), cell.subject, cell.layout))
            seen = observed.get(cell.id, [])
            for observation in _observations(cell, plan, specs[cell.subject], digest, repeat, seen):
                store.append(folder, observation)
    finally:
        verdict = regrade(folder, profile=profile, waivers=waivers)
    if _run_what_tells_apart(folder, verdict, progress):
        verdict = regrade(folder, profile=profile, waivers=waivers)
    return verdict


def _still_as_planned(plan: Plan, missing: Sequence[CellPlan]) -> None:
    """Raise StoredRunError where cells that are to be run would not be those that were planned."""
    if unknown := sorted({cell.layout for cell in missing} - set(LAYOUTS)):
        raise store.StoredRunError(f"Expected layouts of this version, got {', '.join(unknown)}. Begin a new run.")
    needed = {cell.subject for cell in missing}
    for subject in plan.subjects:
        if subject.name in needed and (why := changed(subject)):
            raise store.StoredRunError(
                f"Expected the subject that was planned, got another one: {why}. Begin a new run."
            )


def run(folder: Path, plan: Plan, progress: Callable[[Progress], None] = lambda step: None) -> Verdict:
    """Begin a run in `folder`, run every cell of the plan, grade what was observed and return the verdict."""
    begin(folder, plan)
    return go_on(folder, progress)


def one_cell(spec: str, layout: Layout, *, timeout_s: float, norm_type: float = 2.0) -> CellVerdict:
    """The verdict on one subject under one layout, beside the control; nothing is stored, no mistake is named."""
    plan = plan_of([spec], [layout], timeout_s=timeout_s, norm_type=norm_type)
    specs = {CONTROL: CONTROL} | {subject.name: subject.spec for subject in plan.subjects}
    observations = [each for cell in plan.cells for each in _observations(cell, plan, specs[cell.subject], "", 1)]
    return next(cell for cell in grade(plan, "", observations).cells if not cell.control)


def regrade(folder: Path, *, profile: Profile = "core", waivers: Mapping[str, str] | None = None) -> Verdict:
    """Grade a stored run again, from its files only, name the mistakes that explain it, and store the verdict."""
    graded = _graded(folder, profile, waivers)
    verdict = graded.verdict
    if verdict.word == "violated":
        verdict = verdict.model_copy(update={"diagnoses": _diagnoses(folder, graded)})
    store.write_verdict(folder, verdict)
    return verdict


def believed(folder: Path) -> AuditReport:
    """A graded run, whose stored verdict was found to follow from its observations.

    Raises:
        StoredRunError: the verdict says something else than grading the observations again, by the same version and
            with the same profile and waivers, does.
    """
    report = store.read_report(folder)
    stored = report.verdict
    again = _graded(folder, stored.profile, stored.waivers).verdict
    # As text, because NaN is not equal to itself.
    bare = stored.model_copy(update={"diagnoses": ()}).model_dump_json()
    if stored.graded_by == again.graded_by and bare != again.model_dump_json():
        raise store.StoredRunError(
            f"Expected a verdict that follows from the observations of {folder}, got {stored.word!r} where grading "
            f"them gives {again.word!r}, or other cells. Run `shardproof audit grade` to grade it again."
        )
    return report


def _graded(folder: Path, profile: Profile, waivers: Mapping[str, str] | None) -> Graded:
    plan, digest = store.read_plan(folder)
    observations, notes = store.read_observations(folder, plan, digest)
    verdict = grade(plan, digest, observations, notes, profile=profile, waivers=waivers)
    return Graded(plan, verdict, observations)


def _diagnoses(folder: Path, graded: Graded) -> tuple[Diagnosis, ...]:
    dictionary = list(lowered())
    more = [_graded(folder / APART, "core", None)] if (folder / APART / store.PLAN).is_file() else []
    ran = {layout.name for run in (graded, *more) for layout in run.plan.layouts}
    others = sorted((layout for name, layout in LAYOUTS.items() if name not in ran), key=lambda each: each.world_size)
    plans = [layout_plan(layout, norm_type_of(graded.plan)) for layout in others]
    return tuple(tell_apart(each, dictionary, plans) for each in diagnose([graded, *more], dictionary))


def _run_what_tells_apart(folder: Path, verdict: Verdict, progress: Callable[[Progress], None]) -> bool:
    """Run the few small layouts that decide between candidates, in a run of its own inside the run's folder.

    Returns whether there were any.
    """
    plan, _ = store.read_plan(folder)
    names = {told.layout for each in verdict.diagnoses for told in each.apart}
    layouts = [LAYOUTS[name] for name in LAYOUTS if name in names and LAYOUTS[name].world_size <= SMALL][:FEW]
    ambiguous = {each.subject for each in verdict.diagnoses if each.apart}
    specs = [subject.spec for subject in plan.subjects if subject.name in ambiguous]
    if not layouts or (folder / APART).exists():
        return False
    more = plan_of(specs, layouts, timeout_s=plan.timeout_s, command=plan.command, norm_type=norm_type_of(plan))
    digest = store.begin(folder / APART, more, environment())
    by_name = {CONTROL: CONTROL} | {subject.name: subject.spec for subject in more.subjects}
    for number, cell in enumerate(more.cells, start=1):
        progress(Progress(number, len(more.cells), cell.subject, cell.layout))
        store.append(folder / APART, _observe(cell, more, by_name[cell.subject], digest, 1))
    return True


def _observations(
    cell: CellPlan, plan: Plan, spec: str, digest: str, repeat: int, seen: Sequence[CellObservation] = ()
) -> Iterator[CellObservation]:
    """The cell, observed until nothing lacks, after what was seen of it before."""
    observed = list(seen)
    while _lacking(cell, plan, observed, repeat):
        observed.append(_observe(cell, plan, spec, digest, len(observed) + 1))
        yield observed[-1]


def _lacking(cell: CellPlan, plan: Plan, observed: Sequence[CellObservation], repeat: int) -> bool:
    """Whether a cell is to be observed again: too seldom, or once only and no pass, which could be chance."""
    if cell.control or not observed:
        return not observed
    return len(observed) < repeat or (len(observed) == 1 and is_violation(plan, cell, observed[0]))


def _observe(cell: CellPlan, plan: Plan, spec: str, digest: str, repeat: int) -> CellObservation:
    layout = next(layout for layout in plan.layouts if layout.name == cell.layout)
    started, clock = now(), time.monotonic()
    outcome = _without_running(plan, spec, layout) or observe_cell(
        LAYOUTS[cell.layout], layout.fixtures, spec, plan.timeout_s
    )
    return CellObservation(
        plan_sha256=digest,
        cell=cell.id,
        repeat=repeat,
        status=outcome.status,
        note=outcome.note,
        started=started,
        seconds=round(time.monotonic() - clock, 3),
        ranks=outcome.ranks,
    )


def _without_running(plan: Plan, spec: str, layout: LayoutPlan) -> Outcome | None:
    """What is known of a cell before any process is started."""
    if why := next((why for subject in plan.subjects if subject.spec == spec and (why := changed(subject))), None):
        return Outcome("harness failed", why, ())
    if lacking := missing(spec):
        return Outcome("unavailable", lacking, ())
    if spec in BUILT_IN and (reason := outside(BUILT_IN[spec].capabilities, LAYOUTS[layout.name], _order(layout))):
        return Outcome("outside", reason, ())
    return None


def _order(layout: LayoutPlan) -> float:
    return next((call.norm_type for call in layout.fixtures), 2.0)


def layout_plan(layout: Layout, norm_type: float = 2.0, calls: tuple[FixturePlan, ...] | None = None) -> LayoutPlan:
    """What is stored of a layout: its tensors, where they lie, and the calls: its own for that norm, or those given."""
    return LayoutPlan(
        name=layout.name,
        title=layout.title,
        world_size=layout.world_size,
        axes=dict(layout.axes),
        tensors=tuple(
            TensorPlan(name=tensor.name, shape=tensor.shape, dtype=tensor.dtype)
            for tensor in layout.tensors
            if not tensor.frozen
        ),
        pieces=tuple(
            PiecePlan(
                rank=rank,
                entry=share.entry,
                tensor=share.tensor.name,
                placements=dict(share.placements),
                indices=share.indices,
                padding=share.padding,
                stale=share.tensor.stale if share.padding else 0.0,
                told=told(layout, share.tensor),
                owned=share.owned,
            )
            for rank in range(layout.world_size)
            for share in shares(layout, rank)
        ),
        fixtures=fixtures(layout, norm_type) if calls is None else calls,
        tied=tied(layout),
    )
