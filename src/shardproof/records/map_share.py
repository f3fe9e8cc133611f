"""What is stored when the map is shared: evaluation groups, splits, judged candidates, published tiers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from shardproof.records.isolation import Ending, Level
from shardproof.records.map import CaseContent, CheckContent, ObservedCheck, ProgramContent, Slug
from shardproof.records.page import Environment

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
SplitLevel = Literal["group", "block"]
"""What stays whole: an evaluation group, or the wider block that it belongs to."""
LinkKind = Literal["group", "block", "contract", "program", "repair", "report"]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupLink(_Closed):
    """One reason why mechanisms belong together."""

    kind: LinkKind
    key: str
    """The declared group, the block, the contract's id, the report's address, or the digest of a syntax tree."""
    mechanisms: tuple[Slug, ...]


class EvaluationGroup(_Closed):
    """Mechanisms that a split may not part."""

    id: str
    """The declared groups of its mechanisms, sorted, with + between."""
    mechanisms: tuple[Slug, ...]
    cases: tuple[str, ...]
    links: tuple[GroupLink, ...]


class GroupsRecord(_Closed):
    """All evaluation groups of the catalogue."""

    kind: Literal["shardproof.map-groups"] = "shardproof.map-groups"
    version: Literal[1] = 1
    level: SplitLevel
    repairs: Literal["seen", "held back"]
    """Whether repairs were there to be compared with the other programs."""
    groups: tuple[EvaluationGroup, ...]


class KeptOut(_Closed):
    """A case on no side of a split."""

    id: str
    why: str


class Split(_Closed):
    """A split of the catalogue's cases into train and test."""

    kind: Literal["shardproof.split"] = "shardproof.split"
    version: Literal[1] = 1
    level: SplitLevel
    seed: int
    fraction_asked: Annotated[float, Field(gt=0, lt=1)]
    """The share of cases that test was to have."""
    fraction_met: Annotated[float, Field(ge=0, le=1)]
    """The share that whole groups gave it: test / (train + test)."""
    catalogue_digest: Sha256
    groups: dict[str, Literal["train", "test"]]
    """The side of each evaluation group."""
    train: tuple[str, ...]
    test: tuple[str, ...]
    kept_out: tuple[KeptOut, ...] = ()
    """Cases whose mechanism would join groups of both sides of the split that this one continues."""


class SplitCheck(_Closed):
    """What was found wrong with a split."""

    kind: Literal["shardproof.split-check"] = "shardproof.split-check"
    version: Literal[1] = 1
    level: SplitLevel
    sides: dict[str, int]
    """Cases on each side."""
    catalogue_digest: Sha256
    digest_agrees: bool | None
    """None where the split names no digest."""
    straddling: tuple[str, ...]
    problems: tuple[str, ...]
    """Everything else: unknown ids, ids on two sides, missing cases, empty sides."""
    verdict: Literal["held", "violated", "mismatch"]


TryWord = Literal["passes", "fails", "could not tell"]


class TriedCheck(_Closed):
    """One visible check as the candidate answered it."""

    check: str
    actual: str | None
    """As JSON, cut where it is long; None where there was no answer."""
    passed: bool


class TriedPart(_Closed):
    """One run of the candidate over some checks; those of held-back parts are counted, not shown."""

    name: str
    asked: int
    passed: int
    checks: tuple[TriedCheck, ...]
    ending: Ending
    exit_code: int | None
    detail: str
    problems: tuple[str, ...]
    unclear: tuple[str, ...]
    """Why no verdict on this part could be reached."""


class TryRecord(_Closed):
    """A candidate repair, judged."""

    kind: Literal["shardproof.map-try"] = "shardproof.map-try"
    version: Literal[1] = 1
    id: str
    mechanism: Slug
    variant: int
    case_digest: Sha256
    candidate_sha256: Sha256
    level: Level
    held_back: bool
    """Whether held-back checks and variants were asked too."""
    parts: tuple[TriedPart, ...]
    asked: int
    passed: int
    verdict: TryWord
    environment: Environment


class OpenObservation(_Closed):
    """How the open programs of a case were seen to run; nothing of the repair."""

    role: Literal["failing", "unsuccessful"]
    sha256: Sha256
    exit_code: int | None
    observations: tuple[ObservedCheck, ...]
    python: str
    platform: str
    time: str


class OpenCase(_Closed):
    """A case in the open tier."""

    kind: Literal["shardproof.open-case"] = "shardproof.open-case"
    version: Literal[1] = 1
    digest: Sha256
    evaluation_group: str
    content: CaseContent
    repair: Literal["held back for every case of the mechanism and of its evaluation group"] = (
        "held back for every case of the mechanism and of its evaluation group"
    )
    observations: tuple[OpenObservation, ...]
    """Empty where no results of a verification were given."""


class HeldBackProgram(_Closed):
    """The repair on the held-back checks."""

    program: ProgramContent
    checks: tuple[CheckContent, ...]


class MemberCase(_Closed):
    """What the member tier has beyond the open one: the repair, and the checks that are held back."""

    kind: Literal["shardproof.member-case"] = "shardproof.member-case"
    version: Literal[1] = 1
    id: str
    digest: Sha256
    """The case's; it does not cover what is here."""
    mechanism: Slug
    variant: int
    evaluation_group: str
    repair: ProgramContent
    held_back: HeldBackProgram | None
    repair_observations: tuple[ObservedCheck, ...]
    """Of the repair on the visible checks; empty where no results of a verification were given."""


class TierRecord(_Closed):
    """What one published folder holds."""

    kind: Literal["shardproof.tier"] = "shardproof.tier"
    version: Literal[1] = 1
    tier: Literal["open", "member"]
    catalogue_digest: Sha256
    cases: tuple[str, ...]
    held_back: dict[str, tuple[str, ...]]
    """Evaluation group -> its mechanisms, whose repairs are held back together; empty in the member tier."""
    files: dict[str, Sha256]
    """Every other file of the folder, by its path."""


class Leak(_Closed):
    """Something held back that was found in open output."""

    file: str
    """Path, and the member inside where it is an archive."""
    what: Literal["repair", "held-back check", "digest"]
    mechanism: Slug
    detail: str


class LeakRecord(_Closed):
    """What the leak check looked through and what it found."""

    kind: Literal["shardproof.leak-check"] = "shardproof.leak-check"
    version: Literal[1] = 1
    mechanisms: int
    """Mechanisms whose held-back files were there to be looked for."""
    files: int
    leaks: tuple[Leak, ...]


class ImportedProgram(_Closed):
    """A source of a published page, to the byte, with what the page records about it."""

    role: Literal["failing", "unsuccessful"]
    source: str
    sha256: Sha256
    exit_recorded: str
    observations: tuple[ObservedCheck, ...]
    """The rows of the page's table; `passed` is derived from the values."""


class ImportedCase(_Closed):
    """A published page of the seed's kind, read as a case; its repair is held back by its publisher."""

    kind: Literal["shardproof.imported-case"] = "shardproof.imported-case"
    version: Literal[1] = 1
    id: str
    family: str
    title: str
    contract: str
    root_cause: str
    failure: str
    unsuccessful_approach: str
    why_it_matters: str
    scope: str
    variant: str
    checks: tuple[CheckContent, ...]
    """Arguments and expected values as the page's own source has them."""
    programs: tuple[ImportedProgram, ...]
    repair: Literal["held back"] = "held back"
    known_as: str | None
    """The case of our catalogue that carries this id as an alias."""
    recorded_python: str
    recorded_at: str
    recorded_case_digest: str
    """Covers more than the page holds, so it cannot be recomputed."""
    page_sha256: Sha256


class ExportedCase(_Closed):
    """One line of an export: a case and its digest."""

    digest: Sha256
    evaluation_group: str
    case: CaseContent


class Statement(_Closed):
    """An in-toto statement (v1) about a case: the subjects are its open programs."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field("https://in-toto.io/Statement/v1", alias="_type")
    subject: tuple[dict[str, JsonValue], ...]
    predicateType: Literal["https://in-toto.io/attestation/test-result/v0.1"] = (  # noqa: N815 - in-toto's name
        "https://in-toto.io/attestation/test-result/v0.1"
    )
    predicate: dict[str, JsonValue]
