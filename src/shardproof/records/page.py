"""What is stored about a published page of the Failure Map that was verified by running it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from shardproof.records.isolation import RunRecord

PageWord = Literal["held", "violated", "could not tell", "mismatch"]
"""The verdict on a page: all agrees; an outcome not reproduced; no verdict; a digest does not match."""

RepairWord = Literal["passes", "fails", "could not tell", "no repair of ours for this contract"]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PageFacts(_Closed):
    """What the page says about itself, outside its sources and tables."""

    id: str
    family: str
    access: str
    title: str
    case: str
    statement: str
    root_cause: str
    failure: str
    unsuccessful_approach: str
    contract: str
    why_it_matters: str
    variant: str
    checks_per_implementation: int
    held_back: str
    scope: str
    recorded_python: str
    recorded_at: str
    case_digest: str


class Digest(_Closed):
    """A SHA-256 as the page records it and as computed from the page's exact source bytes."""

    recorded: str
    computed: str
    agrees: bool


class ExitCode(_Closed):
    """An exit code as the page records it and as observed; `agrees` is None where none was observed."""

    recorded: str
    observed: int | None
    agrees: bool | None


class CheckRow(_Closed):
    """One check's row: JSON texts as the page prints them, or as written from what the program printed."""

    label: str
    actual: str
    expected: str
    outcome: str


class Observation(_Closed):
    """One check, recorded and observed; `agrees` is None where nothing could be observed."""

    recorded: CheckRow | None
    observed: CheckRow | None
    agrees: bool | None
    differs: tuple[str, ...]


class ImplementationVerdict(_Closed):
    """One source of the page: its digest, its run, and each of its checks."""

    number: int
    name: str
    digest: Digest
    exit_code: ExitCode
    run: RunRecord
    observations: tuple[Observation, ...]
    differences: tuple[str, ...]
    """What was not reproduced, rows included; empty when all agrees."""
    unclear: tuple[str, ...]
    """Why something could not be told."""


class RepairCheck(_Closed):
    """One check of the page, answered by our own implementation of its contract."""

    label: str
    expected: str
    actual: str
    passed: bool


class RepairVerdict(_Closed):
    """Whether our implementation of the page's contract passes the page's own checks."""

    status: RepairWord
    implementation: str | None
    checks: tuple[RepairCheck, ...]
    detail: str


class Environment(_Closed):
    """Where and when the page was verified."""

    shardproof: str
    python: str
    implementation: str
    platform: str
    time: str


class PageVerdict(_Closed):
    """A verified page: what it records, what was observed, and the verdict on each."""

    kind: Literal["shardproof.page-verdict"] = "shardproof.page-verdict"
    version: Literal[1] = 1
    file: str
    file_sha256: str
    page: PageFacts
    case_digest: Literal["recorded, unchecked"] = "recorded, unchecked"
    """The case digest covers more than the page holds, so it cannot be recomputed from it."""
    implementations: tuple[ImplementationVerdict, ...]
    repair: RepairVerdict
    agreeing: int
    """Observations that agree, of `observations`."""
    observations: int
    notes: tuple[str, ...]
    verdict: PageWord
    environment: Environment
