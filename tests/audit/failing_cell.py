"""A failing cell, run in real processes and stored as an audit stores it: control and subject, on the calls named."""

from shardproof.audit import store
from shardproof.audit.environment import environment
from shardproof.audit.layouts import named
from shardproof.audit.ranks import observe_cell
from shardproof.audit.run import plan_of, regrade
from shardproof.records.audit import CellObservation


def stored_cell(folder, spec, layout, calls=("over", "far-over"), timeout_s=2.0):
    """Run control and subject on the named calls of a layout; return the cell of the subject."""
    plan = plan_of([spec], named([layout]), timeout_s=timeout_s)
    fewer = tuple(call for call in plan.layouts[0].fixtures if call.name in calls)
    plan = plan.model_copy(update={"layouts": (plan.layouts[0].model_copy(update={"fixtures": fewer}),)})
    digest = store.begin(folder, plan, environment())
    specs = {"control": "control", plan.subjects[0].name: plan.subjects[0].spec}
    for cell in plan.cells:
        seen = observe_cell(named([layout])[0], fewer, specs[cell.subject], timeout_s)
        observation = CellObservation(
            plan_sha256=digest,
            cell=cell.id,
            status=seen.status,
            note=seen.note,
            started="",
            seconds=0.0,
            ranks=seen.ranks,
        )
        store.append(folder, observation)
    regrade(folder)
    return plan.cells[1]
