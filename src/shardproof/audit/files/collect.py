"""From the files of an export and of its job to observations; nothing that the job wrote is believed.

What cannot be read (missing, cut off, too large, a link, a name too many) leaves its call unobserved, so that the
cell is `could not tell` at best; what can be read and has the wrong dtype or shape counts against the subject.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from shardproof.audit import store
from shardproof.audit.clauses import expected
from shardproof.audit.environment import now
from shardproof.audit.files.boundary import DamagedError, contents, names, shown
from shardproof.audit.files.export import FILES, JOB, RESULTS, export_plan, gradients
from shardproof.audit.files.tensors import Stored, parsed, read, written
from shardproof.audit.layouts import LAYOUTS, named
from shardproof.audit.observing import storable
from shardproof.audit.run import norm_type_of
from shardproof.audit.store import StoredRunError
from shardproof.audit.subjects import CONTROL
from shardproof.errors import InvalidValueError
from shardproof.records.audit import (
    Call,
    CellObservation,
    FixturePlan,
    LayoutPlan,
    Piece,
    Plan,
    RankObservation,
    Returned,
    Slice,
)

_HEADER: Final = 64 * 2**10
_ANSWER: Final = 16 * 2**10
_TEXT: Final = 2000
_KNOWN: Final = {
    *(store.PLAN, store.ENVIRONMENT, store.OBSERVATIONS, store.VERDICT, JOB, RESULTS),
}


def is_export(folder: Path) -> bool:
    """Whether a folder holds an export, rather than a run.

    A folder for a job is enough: the plan may have been changed, so that stored observations would be believed.
    """
    if os.path.lexists(folder / JOB):
        return True
    plan = store.read_plan(folder)[0] if (folder / store.PLAN).is_file() else None
    return plan is not None and any(subject.framework == "files" for subject in plan.subjects)


def collect(folder: Path) -> None:
    """Read what a job wrote into an export's results and store it as the run's observations.

    Raises:
        StoredRunError: the plan is not the one that this version writes for its layouts.
        InvalidValueError: the folder holds what an export does not.
    """
    plan, digest = store.read_plan(folder)
    _only_ours(folder, plan)
    seen = [
        observation
        for layout in plan.layouts
        for observation in (_control(folder, layout, digest), _results(folder, layout, digest))
        if observation is not None
    ]
    lines = b"".join(each.model_dump_json().encode() + b"\n" for each in seen)
    store.write_whole(folder / store.OBSERVATIONS, lines)


def _only_ours(folder: Path, plan: Plan) -> None:
    """The plan lies where the job may have written: the layouts and calls are made again, not believed."""
    found = [layout.name for layout in plan.layouts]
    if unknown := [name for name in found if name not in LAYOUTS]:
        raise StoredRunError(f"Expected layouts of this version, got {shown(unknown)}. Export again.")
    ours = export_plan(named(found) if found else (), norm_type=norm_type_of(plan))
    if (ours.subjects, ours.cells, _text(ours)) != (plan.subjects, plan.cells, _text(plan)):
        raise StoredRunError("Expected the plan that this version exports, got another one. Export again.")
    odd = [name for name in names(folder, (), 64) or () if name not in _KNOWN]
    try:
        results = names(folder, (RESULTS,), len(found)) or ()
    except DamagedError as damage:
        raise StoredRunError(f"Expected an export with the folder {RESULTS}: {damage}.") from damage
    odd += [f"{RESULTS}/{name}" for name in results if name not in found]
    if odd:
        raise InvalidValueError(
            f"Expected an export with {RESULTS}/ of its layouts, got {shown(odd)} in {folder}. Remove it, or export "
            "again: a folder that holds what nobody planned is not judged."
        )


def _text(plan: Plan) -> list[str]:
    return [layout.model_dump_json() for layout in plan.layouts]  # NaN is equal to itself in text only


def _control(folder: Path, layout: LayoutPlan, digest: str) -> CellObservation:
    """The rule on the gradients as they lie in the export; it fails where they are not what was exported."""
    for call in layout.fixtures:
        for rank in range(layout.world_size):
            wanted = written(gradients(layout, call, rank))
            parts = (JOB, layout.name, call.name, f"rank{rank}.safetensors")
            try:
                right = contents(folder, parts, len(wanted)) == wanted
            except DamagedError:
                right = False
            if not right:
                note = f"{'/'.join(parts)} is not what was exported, so the job may have clipped something else"
                return _observation(CONTROL, layout, digest, (), note, "harness failed")
    calls = [{rank: _right(layout, call, rank) for rank in range(layout.world_size)} for call in layout.fixtures]
    return _observation(CONTROL, layout, digest, tuple(calls), None)


def _right(layout: LayoutPlan, call: FixturePlan, rank: int) -> Call:
    values = [value for row in call.gradients.values() for value in row]
    given = gradients(layout, call, rank)
    if not call.limit >= 0:
        return Call(
            fixture=call.name,
            outcome="raised",
            stage="done",
            error="a limit that is none",
            slices=_slices(layout, call, rank, given),
        )
    finite = all(map(math.isfinite, values))
    norm = math.nan if any(map(math.isnan, values)) else math.inf
    factor = 1.0
    if finite:
        want = expected(layout, call)
        norm, factor = want.norm, want.factor
    scaled = {
        name: Stored(each.dtype, each.shape, tuple(value * factor for value in each.values))
        for name, each in given.items()
    }
    after = read(written(scaled))  # rounded to the gradients' dtypes, as a result is
    returned = Returned(type="float", number=norm)
    slices = _slices(layout, call, rank, after)
    return Call(fixture=call.name, outcome="returned", stage="done", returned=returned, slices=slices)


def _results(folder: Path, layout: LayoutPlan, digest: str) -> CellObservation | None:
    planned = [call.name for call in layout.fixtures]
    notes: list[str] = []
    calls: list[Mapping[int, Call]] = []
    try:
        found = names(folder, (RESULTS, layout.name), len(planned))
    except DamagedError as damage:
        return _observation(FILES, layout, digest, (), str(damage), "harness failed")
    if found is None:
        return None
    if odd := [name for name in found if name not in planned]:
        return _observation(FILES, layout, digest, (), f"unplanned results: {shown(odd)}", "harness failed")
    for call in layout.fixtures:
        try:
            calls.append(_call(folder, layout, call))
        except DamagedError as damage:
            notes.append(f"{call.name}: {damage}")
    return _observation(FILES, layout, digest, tuple(calls), "; ".join(notes[:5]) or None)


def _call(folder: Path, layout: LayoutPlan, call: FixturePlan) -> Mapping[int, Call]:
    """One call on every rank; raises DamagedError where a rank's files are missing or cannot be used."""
    where = (RESULTS, layout.name, call.name)
    planned = {f"rank{rank}.{end}" for rank in range(layout.world_size) for end in ("json", "safetensors")}
    found = names(folder, where, len(planned))
    if found is None:
        raise DamagedError("no result was written")
    if odd := [name for name in found if name not in planned]:
        raise DamagedError(f"unplanned files {shown(odd)}")
    return {rank: _rank(folder, where, layout, call, rank) for rank in range(layout.world_size)}


def _rank(folder: Path, where: tuple[str, ...], layout: LayoutPlan, call: FixturePlan, rank: int) -> Call:
    given = gradients(layout, call, rank)
    room = _HEADER + sum(16 * len(each.values) + 1024 for each in given.values())
    answer = contents(folder, (*where, f"rank{rank}.json"), _ANSWER)
    tensors = contents(folder, (*where, f"rank{rank}.safetensors"), room)
    if answer is None or (tensors is None and given and b'"error"' not in answer):
        raise DamagedError(f"rank {rank} wrote no {'answer' if answer is None else 'gradients'}")
    try:
        said = parsed(answer)
        held = {} if tensors is None else read(tensors)
    except DamagedError as damage:
        raise DamagedError(f"rank {rank}: {damage}") from damage
    if set(said) not in ({"norm"}, {"error"}):
        raise DamagedError(f'rank {rank}: its answer has {shown(sorted(said))}, not one of "norm" and "error"')
    if (tensors is not None or "norm" in said) and set(held) != set(given):
        raise DamagedError(f"rank {rank}: gradients {shown(sorted(held))}, given were {shown(sorted(given))}")
    slices = _slices(layout, call, rank, held)
    if "error" in said:
        text = _printable(said["error"][:_TEXT]) if isinstance(said["error"], str) else "an error that is no text"
        return Call(fixture=call.name, outcome="raised", stage="in the job", error=text, slices=slices)
    returned = _norm(said["norm"])
    return Call(fixture=call.name, outcome="returned", stage="in the job", returned=returned, slices=slices)


def _printable(text: str) -> str:
    """The text without what could drive a terminal, and storable as UTF-8."""
    return storable("".join(each if each.isprintable() else ascii(each)[1:-1] for each in text))


def _norm(said: Any) -> Returned:
    if said in ("nan", "inf", "-inf") and isinstance(said, str):
        return Returned(type="text", number=float(said))
    if isinstance(said, bool) or not isinstance(said, (int, float)):
        return Returned(type=type(said).__name__, problem="the norm is not a number")
    try:
        return Returned(type=type(said).__name__, number=float(said))
    except OverflowError:
        return Returned(type="int", problem="the norm is too large for a float")


def _slices(layout: LayoutPlan, call: FixturePlan, rank: int, held: Mapping[str, Stored]) -> tuple[Slice, ...]:
    given = gradients(layout, call, rank)
    pieces = [piece for piece in layout.pieces if piece.rank == rank]
    return tuple(_slice(given.get(each.entry), held.get(each.entry), len(each.indices)) for each in pieces)


def _slice(given: Stored | None, held: Stored | None, count: int) -> Slice:
    if given is None:
        return Slice(before=(), after=None, kind="file", same_object=True)
    seen = Slice(before=given.values[:count], after=None, kind="file", same_object=True)
    if held is None:
        return seen.model_copy(update={"problem": "no gradient was written"})
    if (held.dtype, held.shape) != (given.dtype, given.shape):
        problem = f"the result is {held.dtype} of shape {held.shape}, given was {given.dtype} of shape {given.shape}"
        return seen.model_copy(update={"problem": problem[:_TEXT]})
    return seen.model_copy(update={"after": held.values[:count], "padding": held.values[count:]})


def _observation(
    subject: str,
    layout: LayoutPlan,
    digest: str,
    calls: tuple[Mapping[int, Call], ...],
    note: str | None,
    status: Any = "ran",
) -> CellObservation:
    return CellObservation(
        plan_sha256=digest,
        cell=f"{subject}/{layout.name}",
        status=status,
        note=None if note is None else note[:_TEXT],
        started=now(),
        seconds=0.0,
        ranks=tuple(_ranks(layout, calls)) if status == "ran" else (),
    )


def _ranks(layout: LayoutPlan, calls: tuple[Mapping[int, Call], ...]) -> Iterator[RankObservation]:
    for rank in range(layout.world_size):
        pieces = tuple(
            Piece(entry=each.entry, tensor=each.tensor, kind="file", indices=each.indices, padding=each.padding)
            for each in layout.pieces
            if each.rank == rank
        )
        made = tuple(call[rank] for call in calls)
        yield RankObservation(rank=rank, stage="waiting for a call", pieces=pieces, calls=made)
