"""What an audit stores: the plan, the environment, the observations of each cell, and the verdict on them."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from shardproof.records.page import PageVerdict

PlacementKind = Literal["shard", "replicate", "partial", "distinct"]
CallOutcome = Literal["returned", "raised", "collective timeout", "did not return", "died", "not reached"]
CellStatus = Literal["ran", "unavailable", "outside", "harness failed"]
"""unavailable: something is not installed; outside: the subject says that it is not made for the cell."""
CellWord = Literal["pass", "fail", "error", "hang", "crash", "skip", "not run", "could not tell", "flaky"]
ClauseOutcome = Literal["held", "violated", "waived", "not exercised"]
RunWord = Literal["held", "violated", "could not tell", "nothing ran"]
Profile = Literal["core", "strict"]
"""core decides; strict is what shardproof promises beyond it, reported apart."""


def _float_from_json(value: object) -> object:
    return float(value) if value in ("nan", "inf", "-inf") and isinstance(value, str) else value


def _float_to_json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


Number = Annotated[float, BeforeValidator(_float_from_json), PlainSerializer(_float_to_json, when_used="json")]
"""A float that survives JSON: nan, inf and -inf are stored as strings."""


class Record(BaseModel):
    """A stored record: closed and unchangeable."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class TensorPlan(Record):
    """A logical tensor: each of its elements counts once, wherever and however often it lies."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class PiecePlan(Record):
    """What one rank is meant to hold of a logical tensor, as flat (row-major) element indices.

    padding: how many elements of the local buffer follow that belong to no tensor; stale: what lies there. told: the
    axes on which the framework's own object knows its placement. owned: start, stop and length of the whole, of a
    padded flat buffer.
    """

    rank: int
    entry: str
    tensor: str
    placements: dict[str, PlacementKind]
    indices: tuple[int, ...]
    padding: int = 0
    stale: Number = 0.0
    told: tuple[str, ...] = ()
    owned: tuple[int, int, int] | None = None


class FixturePlan(Record):
    """One call: the gradients by logical tensor, and the limit; a strict fixture says nothing about core clauses.

    absent: tensor -> the ranks whose parameter has no gradient in this call; its elements there are zero.
    """

    name: str
    title: str
    limit: Number
    gradients: dict[str, tuple[Number, ...]]
    profile: Profile = "core"
    absent: dict[str, tuple[int, ...]] = {}
    norm_type: Number = 2.0


class LayoutPlan(Record):
    """A layout with its tensors, where they lie, and the calls that are made on it.

    tied: tuples of entry names, on one rank or on several, that are copies of one tensor.
    """

    name: str
    title: str
    world_size: int
    axes: dict[str, int]
    tensors: tuple[TensorPlan, ...]
    pieces: tuple[PiecePlan, ...]
    fixtures: tuple[FixturePlan, ...]
    tied: tuple[tuple[str, ...], ...] = ()


class SubjectPlan(Record):
    """What is audited; sha256 is that of the source file, where the subject names one, line that of its definition."""

    name: str
    spec: str
    file: str | None = None
    sha256: str | None = None
    line: int | None = None
    framework: Literal["torch", "jax", "files"] = "torch"


class CellPlan(Record):
    """One subject under one layout; the control is the harness's own reference."""

    id: str
    subject: str
    layout: str
    control: bool


class Plan(Record):
    """Everything that is going to be run, written before anything runs."""

    schema_version: Literal["shardproof.audit/1"] = "shardproof.audit/1"
    run_id: str
    command: tuple[str, ...]
    timeout_s: float
    subjects: tuple[SubjectPlan, ...]
    layouts: tuple[LayoutPlan, ...]
    cells: tuple[CellPlan, ...]


class Environment(Record):
    """Where the run took place."""

    time: str
    python: str
    implementation: str
    platform: str
    cpu: str
    cpus: int
    backend: str
    accelerator: str | None
    packages: dict[str, str]


class Piece(Record):
    """What a rank's real object was seen to hold before the subject was called."""

    entry: str
    tensor: str
    kind: str
    indices: tuple[int, ...]
    padding: int = 0


class Slice(Record):
    """One entry's gradient around one call, in the order of the piece's indices.

    before is empty and after is None without a problem where the call began and ended without a gradient. padding:
    what lay behind the elements after the call; it is not judged.
    """

    before: tuple[Number, ...]
    after: tuple[Number, ...] | None
    kind: str
    same_object: bool
    problem: str | None = None
    padding: tuple[Number, ...] = ()


class Returned(Record):
    """What the subject returned on one rank, as far as it can be used."""

    type: str
    number: Number | None = None
    problem: str | None = None
    placements: str | None = None
    full: Number | None = None
    full_problem: str | None = None


class Call(Record):
    """One call on one rank."""

    fixture: str
    outcome: CallOutcome
    stage: str
    returned: Returned | None = None
    error: str | None = None
    traceback: str | None = None
    slices: tuple[Slice, ...] = ()


class RankObservation(Record):
    """One rank's process: what it held, what its calls did, and how it ended when it ended by itself."""

    rank: int
    stage: str
    pieces: tuple[Piece, ...] = ()
    import_error: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    calls: tuple[Call, ...] = ()
    log: str = ""


class CellObservation(Record):
    """One line of observations.jsonl."""

    schema_version: Literal["shardproof.audit/1"] = "shardproof.audit/1"
    plan_sha256: str
    cell: str
    repeat: int = 1
    """1 for the first observation of the cell, 2 for the next, ..."""
    status: CellStatus
    note: str | None
    started: str
    seconds: float
    ranks: tuple[RankObservation, ...]


class Finding(Record):
    """One violated check: where, what was expected and what was seen."""

    fixture: str
    rank: int | None = None
    tensor: str | None = None
    index: int | None = None
    expected: Number | None = None
    observed: Number | None = None
    text: str


class ClauseVerdict(Record):
    """One clause of the contract on one cell: how many checks were made and violated, and on which ranks."""

    clause: str
    profile: Profile = "core"
    outcome: ClauseOutcome
    checks: int
    violations: int
    ranks: tuple[int, ...] = ()
    first: Finding | None = None


class NormRow(Record):
    """Expected against returned, rank by rank, for one fixture."""

    fixture: str
    limit: Number
    expected_norm: Number
    expected_factor: Number
    returned: tuple[Number | None, ...]
    ratio: tuple[Number | None, ...]
    factor: tuple[Number | None, ...]


class CellVerdict(Record):
    """The verdict on one cell."""

    cell: str
    subject: str
    layout: str
    control: bool
    verdict: CellWord
    reason: str
    ranks: tuple[int, ...] = ()
    runs: int = 0
    """How many observations of the cell were graded."""
    clauses: tuple[ClauseVerdict, ...] = ()
    norms: tuple[NormRow, ...] = ()
    norm_tolerance: Number | None = None
    element_tolerance: Number | None = None


class Named(Record):
    """One wrong implementation of the map, and the reading of the layouts in which it was run."""

    mechanism: str
    implementation: Literal["failing", "unsuccessful"]
    reading: str


class Candidate(Record):
    """What explains a subject; several names in one tuple are mistakes made together, several tuples say the same."""

    together: tuple[tuple[Named, ...], ...]
    agreeing: int
    """Observations on which it agrees with the subject: all that it could express."""
    departing: int
    """Of these, on how many it departs from the reference."""


class Residual(Record):
    """How near an implementation of the map comes to a subject that none explains; worst is relative."""

    nearest: Named
    agreeing: int
    of: int
    worst: Number


class TellApart(Record):
    """A layout that was not run, and a call under it, on which two candidates differ."""

    layout: str
    fixture: str
    one: str
    other: str


class Diagnosis(Record):
    """Which mistakes explain what one subject was seen to do; scope is core, or one strict clause."""

    subject: str
    scope: str
    word: Literal["explained", "not a known mechanism", "nothing to explain"]
    observations: int
    wrong: int
    candidates: tuple[Candidate, ...] = ()
    residuals: tuple[Residual, ...] = ()
    apart: tuple[TellApart, ...] = ()
    left_out: tuple[str, ...] = ()


class Verdict(Record):
    """The verdict on a run: what `audit grade` writes."""

    schema_version: Literal["shardproof.audit/1"] = "shardproof.audit/1"
    run_id: str
    plan_sha256: str
    graded_by: str
    profile: Profile = "core"
    word: RunWord
    exit_code: int
    planned: int
    observed: int
    counts: dict[str, int]
    cells: tuple[CellVerdict, ...]
    across: tuple[ClauseVerdict, ...] = ()
    """What holds across layouts, for each subject in the plan's order."""
    clauses: dict[str, str]
    strict_clauses: tuple[str, ...] = ()
    waivers: dict[str, str] = {}
    diagnoses: tuple[Diagnosis, ...] = ()
    tolerances: tuple[str, ...]
    limits: tuple[str, ...]
    notes: tuple[str, ...] = ()


class AuditReport(Record):
    """Everything that a rendered report says; pages are published pages that were verified beside the audit."""

    plan: Plan
    environment: Environment
    verdict: Verdict
    pages: tuple[PageVerdict, ...] = ()


class Side(Record):
    """One of two compared runs."""

    run_id: str
    graded_by: str
    profile: Profile
    word: RunWord


class ClauseChange(Record):
    """One clause of one cell whose outcome changed; text is the first finding of the run that has one."""

    clause: str
    old: ClauseOutcome
    new: ClauseOutcome
    text: str


class CellChange(Record):
    """One cell whose verdict, or a clause of it, changed; a cell that one run did not plan is `not planned` there."""

    subject: str
    layout: str
    old: str
    new: str
    clauses: tuple[ClauseChange, ...]


class AuditDiff(Record):
    """What changed between two graded runs; `same` counts the cells that did not."""

    schema_version: Literal["shardproof.audit-diff/1"] = "shardproof.audit-diff/1"
    old: Side
    new: Side
    same: int
    changes: tuple[CellChange, ...]
    notes: tuple[str, ...]


class DoctorLine(Record):
    """One thing that was looked for."""

    what: str
    found: bool
    text: str


class Doctor(Record):
    """What an audit finds on this machine."""

    environment: Environment
    lines: tuple[DoctorLine, ...]
