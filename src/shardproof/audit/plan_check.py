"""Whether a stored plan holds together, and whether what it names is still what was planned."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from shardproof.records.audit import LayoutPlan, Plan, SubjectPlan


def wrong_in(plan: Plan) -> str | None:
    """What in a plan does not fit the rest of it; None where all does."""
    return next(_wrongs(plan), None)


def changed(subject: SubjectPlan) -> str | None:
    """What is to be said of a subject whose file is not the one that was planned; None where it is."""
    if subject.file is None or subject.sha256 is None:
        return None
    path = Path(subject.file)
    if not path.is_file():
        return f"{path} is not there any more"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest == subject.sha256:
        return None
    return f"{path} changed since the run was planned: its SHA-256 was {subject.sha256}, and is {digest}"


def _wrongs(plan: Plan) -> Iterator[str]:
    for what, names in (
        ("layout", [layout.name for layout in plan.layouts]),
        ("subject", [subject.name for subject in plan.subjects]),
        ("cell", [cell.id for cell in plan.cells]),
    ):
        twice = [name for name, count in Counter(names).items() if count > 1]
        yield from (f"the {what} {name!r} is planned more than once" for name in twice)
    layouts = {layout.name for layout in plan.layouts}
    subjects = {subject.name for subject in plan.subjects}
    for cell in plan.cells:
        if cell.layout not in layouts:
            yield f"the cell {cell.id!r} is planned under {cell.layout!r}, which is no layout of the plan"
        if not cell.control and cell.subject not in subjects:
            yield f"the cell {cell.id!r} is planned for {cell.subject!r}, which is no subject of the plan"
    for layout in plan.layouts:
        yield from _wrongs_of(layout)


def _wrongs_of(layout: LayoutPlan) -> Iterator[str]:
    sizes = {tensor.name: math.prod(tensor.shape) for tensor in layout.tensors}
    if math.prod(layout.axes.values()) != layout.world_size:
        yield f"{layout.name}: the axes {layout.axes} do not make {layout.world_size} ranks"
    for piece in layout.pieces:
        if not 0 <= piece.rank < layout.world_size:
            yield f"{layout.name}: {piece.entry} lies on rank {piece.rank} of {layout.world_size}"
        if not all(0 <= index < sizes.get(piece.tensor, 0) for index in piece.indices):
            yield f"{layout.name}: {piece.entry} on rank {piece.rank} holds elements that {piece.tensor!r} has not"
        if set(piece.placements) != set(layout.axes):
            yield f"{layout.name}: {piece.entry} lies on the axes {sorted(piece.placements)}, not {sorted(layout.axes)}"
    for fixture in layout.fixtures:
        if {name: len(row) for name, row in fixture.gradients.items()} != sizes:
            yield f"{layout.name}: the gradients of {fixture.name!r} are not those of the tensors"
