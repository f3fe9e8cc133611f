"""Writing the gradients of every rank and call to files, with a plan, for a job that any launcher starts."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shardproof.audit import store
from shardproof.audit.environment import environment
from shardproof.audit.files.tensors import Stored, written
from shardproof.audit.layouts import LAYOUTS, Layout, Share, coordinates, shares
from shardproof.audit.run import layout_plan
from shardproof.audit.subjects import CONTROL
from shardproof.records.audit import CellPlan, FixturePlan, LayoutPlan, Plan, SubjectPlan
from shardproof.records.job import Job, JobCall, JobParameter, JobRank

FILES: Final = "files"
"""The subject of an export: whoever wrote the results."""
JOB: Final = "job"
RESULTS: Final = "results"


def export_plan(layouts: Sequence[Layout], *, norm_type: float = 2.0, command: Sequence[str] = ()) -> Plan:
    """The plan of an export: one cell for each layout, and the control, which is the rule on the files as they lie."""
    return Plan(
        run_id=uuid.uuid4().hex,
        command=tuple(command),
        timeout_s=0.0,
        subjects=(SubjectPlan(name=FILES, spec=FILES, framework="files"),),
        layouts=tuple(layout_plan(layout, norm_type) for layout in layouts),
        cells=tuple(
            CellPlan(id=f"{name}/{layout.name}", subject=name, layout=layout.name, control=name == CONTROL)
            for layout in layouts
            for name in (CONTROL, FILES)
        ),
    )


def export(folder: Path, plan: Plan) -> str:
    """Write an export into a new folder; return the digest of its plan, to be kept where the job cannot write.

    job/LAYOUT/job.json and job/LAYOUT/CALL/rankN.safetensors are for the job to read; results/ is for it to write.
    """
    digest = store.begin(folder, plan, environment())
    for layout in plan.layouts:
        here = folder / JOB / layout.name
        here.mkdir(parents=True)
        store.write_whole(here / "job.json", job_of(layout).model_dump_json(indent=1).encode() + b"\n")
        for call in layout.fixtures:
            (here / call.name).mkdir()
            for rank in range(layout.world_size):
                data = written(gradients(layout, call, rank))
                store.write_whole(here / call.name / f"rank{rank}.safetensors", data)
    (folder / RESULTS).mkdir()
    return digest


def gradients(layout: LayoutPlan, call: FixturePlan, rank: int) -> dict[str, Stored]:
    """What one rank holds before a call, by parameter name; padding behind, parameters without a gradient left out."""
    shapes = {share.entry: local_shape(share) for share in shares(LAYOUTS[layout.name], rank)}
    dtypes = {tensor.name: tensor.dtype for tensor in layout.tensors}
    return {
        piece.entry: Stored(
            dtypes[piece.tensor],
            shapes[piece.entry],
            (*(call.gradients[piece.tensor][index] for index in piece.indices), *[piece.stale] * piece.padding),
        )
        for piece in layout.pieces
        if piece.rank == rank and rank not in call.absent.get(piece.tensor, ())
    }


def job_of(layout: LayoutPlan) -> Job:
    """What the job is told of a layout."""
    known = LAYOUTS[layout.name]
    return Job(
        layout=layout.name,
        title=layout.title,
        world_size=layout.world_size,
        axes=layout.axes,
        tied=layout.tied,
        calls=tuple(JobCall(name=call.name, limit=call.limit, norm_type=call.norm_type) for call in layout.fixtures),
        ranks=tuple(
            JobRank(
                rank=rank,
                at=coordinates(known, rank),
                parameters=tuple(_parameter(share) for share in shares(known, rank)),
            )
            for rank in range(layout.world_size)
        ),
    )


def local_shape(share: Share) -> tuple[int, ...]:
    """The shape of a rank's part; a padded buffer is flat."""
    return (len(share.indices) + share.padding,) if share.padding else share.shape


def _parameter(share: Share) -> JobParameter:
    return JobParameter(
        name=share.entry,
        dtype=share.tensor.dtype,
        shape=local_shape(share),
        tensor_shape=share.tensor.shape,
        placements=dict(share.placements),
        owned=share.owned,
    )
