"""What a reproduction of a stored cell shows: its shrunk failure where there is one, else the call that fails most."""

from __future__ import annotations

from pathlib import Path

from shardproof.audit import shrink_store, store
from shardproof.audit.layouts import LAYOUTS
from shardproof.audit.reproduction import Shown
from shardproof.audit.shrink import failing_call
from shardproof.audit.shrink_layouts import part_of
from shardproof.errors import InvalidValueError
from shardproof.records.audit import CellObservation, CellPlan, Plan


def shown_of(folder: Path, cell: CellPlan, *, whole: bool = False, clause: str | None = None) -> Shown:
    """What to show of a failing cell of a stored run.

    Args:
        folder: of the run.
        cell: of its plan.
        whole: show the layout as it was audited although a shrunk failure is stored.
        clause: show a call that violates this clause; None: the one that violates most.

    Raises:
        InvalidValueError: no call of the cell fails, or this version has no such layout.
        StoredRunError: the stored run does not hold together.
    """
    plan, digest = store.read_plan(folder)
    subject = next(each for each in plan.subjects if each.name == cell.subject)
    layout = LAYOUTS.get(cell.layout)
    if layout is None:
        raise InvalidValueError(f"Expected a layout of this version, got the cell {cell.id}. Run the audit again.")
    shrunk = None if whole or clause else shrink_store.read(folder, cell.id, digest)
    if shrunk is not None:
        (call,) = shrunk.layout.fixtures
        return Shown(subject, part_of(layout, shrunk.kept).layout, shrunk.layout, call, frozenset(shrunk.clauses))
    planned = next(each for each in plan.layouts if each.name == cell.layout)
    call, failure, _ = failing_call(planned, observation_of(folder, plan, digest, cell.id), clause, every=True)
    return Shown(subject, layout, planned, call, failure.clauses)


def observation_of(folder: Path, plan: Plan, digest: str, cell: str) -> CellObservation:
    """The first observation of a cell; raises InvalidValueError where it was not observed."""
    observations, _ = store.read_observations(folder, plan, digest)
    found = next((each for each in observations if each.cell == cell), None)
    if found is None:
        raise InvalidValueError(
            f"Expected an observed cell, got {cell}, which was not run. `audit run --resume` runs it."
        )
    return found
