"""What the audit's tests share: observing one subject under one layout and grading it without a folder."""

import math
from pathlib import Path

import pytest

from shardproof.audit.grade import grade
from shardproof.audit.layouts import named
from shardproof.audit.run import plan_of
from shardproof.records.audit import Call, CellObservation, Piece, RankObservation, Returned, Slice

SUBJECTS = Path(__file__).parent / "subjects"


@pytest.fixture(scope="session")
def subjects():
    """The folder of clips that the tests audit."""
    return SUBJECTS


@pytest.fixture(scope="session")
def verdict_on():
    """Run control and subject under one layout in real processes, and return the subject's verdict."""
    from shardproof.audit.ranks import observe_cell

    def run(spec, layout, timeout_s=1.0):
        plan = plan_of([spec], named([layout]), timeout_s=timeout_s)
        specs = {"control": "control", plan.subjects[0].name: plan.subjects[0].spec}
        outcomes = [
            (cell.id, observe_cell(named([layout])[0], plan.layouts[0].fixtures, specs[cell.subject], timeout_s))
            for cell in plan.cells
        ]
        seen = [stored(cell, status=each.status, note=each.note, ranks=each.ranks) for cell, each in outcomes]
        return grade(plan, "0" * 64, seen).cells[1]

    return run


@pytest.fixture(scope="session")
def plan():
    """A plan of one made-up subject under two layouts."""
    return plan_of([f"{SUBJECTS / 'right.py'}:by_hand"], named(["hand-sharded", "pipeline"]), timeout_s=1.0)


@pytest.fixture(scope="session")
def right_cell():
    """What a perfect clip would have been seen to do, for tests of the grader alone."""
    return observed_right


def stored(cell, *, status="ran", note=None, ranks=(), plan_sha256="0" * 64):
    return CellObservation(
        plan_sha256=plan_sha256, cell=cell, status=status, note=note, started="", seconds=0.0, ranks=ranks
    )


def observed_right(plan, cell_id, plan_sha256="0" * 64):
    """An observation in which every rank returned the right norm and scaled exactly."""
    cell = next(cell for cell in plan.cells if cell.id == cell_id)
    layout = next(layout for layout in plan.layouts if layout.name == cell.layout)
    ranks = []
    for rank in range(layout.world_size):
        pieces = [piece for piece in layout.pieces if piece.rank == rank]
        calls = []
        for fixture in layout.fixtures:
            before = [tuple(fixture.gradients[each.tensor][index] for index in each.indices) for each in pieces]
            calls.append(right_call(layout, fixture, before))
        seen = tuple(Piece(entry=p.entry, tensor=p.tensor, kind="Parameter", indices=p.indices) for p in pieces)
        ranks.append(RankObservation(rank=rank, stage="waiting for a call", pieces=seen, calls=tuple(calls)))
    return stored(cell_id, ranks=tuple(ranks), plan_sha256=plan_sha256)


def right_call(layout, fixture, before):
    """What a perfect clip does: it refuses a limit that is none, and leaves gradients that are not finite alone."""
    from shardproof.audit.clauses import expected

    if not fixture.limit >= 0:
        slices = tuple(Slice(before=row, after=row, kind="Tensor", same_object=True) for row in before)
        error = f"ValueError: limit {fixture.limit}"
        return Call(fixture=fixture.name, outcome="raised", stage="in the call", error=error, slices=slices)
    values = [value for row in fixture.gradients.values() for value in row]
    if all(map(math.isfinite, values)):
        want = expected(layout, fixture)
        norm, factor = want.norm, want.factor
    else:
        norm, factor = (math.nan if any(map(math.isnan, values)) else math.inf), 1.0
    slices = tuple(
        Slice(before=row, after=tuple(value * factor for value in row), kind="Tensor", same_object=True)
        for row in before
    )
    returned = Returned(type="float", number=norm)
    return Call(fixture=fixture.name, outcome="returned", stage="done", returned=returned, slices=slices)
