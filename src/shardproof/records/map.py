"""What is stored about the Failure Map: the two TOML files that authors write, cases, and verification results."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from shardproof.records.isolation import Ending, Isolation, Level
from shardproof.records.page import Environment

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
"""A stable name: lower case, digits, single hyphens."""
Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=20)]
"""At least a sentence, in our own words."""
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, pattern=r"^[^\n]+$")]
Url = Annotated[str, StringConstraints(pattern=r"^https://[^\s]+$")]

Rounding = Literal["12 decimals", "12 significant digits", "none"]
Group = Literal["own", "combine", "sync", "scale", "weight", "accum", "order", "numeric", "policy"]
"""An evaluation group: all its mechanisms stay on one side of any split."""
ReferenceKind = Literal["issue", "pull-request", "commit", "discussion", "paper", "documentation"]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ContractFile(_Closed):
    """contract.toml: what every implementation under this contract is asked to do."""

    schema_: Literal["shardproof.contract/1"] = Field(alias="schema")
    id: Slug
    solve: Annotated[str, StringConstraints(pattern=r"^solve\([a-z_0-9, ]+\)$")]
    """The signature, as in `solve(shards, limit)`."""
    text: Prose
    arguments: dict[str, Line]
    """Each argument of solve, by name, and what it holds."""
    rounding: Rounding


class Reference(_Closed):
    """A public report of the mechanism."""

    kind: ReferenceKind
    url: Url
    note: Line


class MechanismFile(_Closed):
    """mechanism.toml: one way in which aggregation goes wrong, and what was tried against it."""

    schema_: Literal["shardproof.mechanism/1"] = Field(alias="schema")
    slug: Slug
    title: Line
    family: Slug
    group: Group
    contract: Slug
    variants: Annotated[tuple[Annotated[int, Field(ge=1, strict=True)], ...], Field(min_length=3)]
    root_cause: Prose
    unsuccessful_approach: Prose
    why_it_matters: Prose
    scope: Prose
    references: Annotated[tuple[Reference, ...], Field(min_length=1)]


CaseId = Annotated[str, StringConstraints(pattern=r"^SP-[0-9]{5}$")]
CaseState = Literal["active", "deprecated", "withdrawn"]


class CaseEntry(_Closed):
    """One line of cases.jsonl: an id, and the mechanism and variant that it names for ever."""

    id: CaseId
    mechanism: Slug
    variant: Annotated[int, Field(ge=1)]
    state: CaseState = "active"
    reason: Line | None = None
    """Why it is deprecated or withdrawn."""
    aliases: tuple[Line, ...] = ()
    """Ids under which the case was published elsewhere."""
    seal: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    """Over the seal before it, id, mechanism and variant: a line cannot be taken out or renumbered unseen."""


Part = Literal["visible", "held back"]
RoleName = Literal["failing", "unsuccessful", "repair"]


class CheckContent(_Closed):
    """One check as JSON carries it: inf and nan are strings."""

    label: str
    arguments: tuple[JsonValue, ...]
    expected: JsonValue


class ProgramContent(_Closed):
    """A rendered program and the SHA-256 over its exact bytes."""

    role: RoleName
    source: str
    sha256: str


class ContractContent(_Closed):
    """The contract as the case's page prints it."""

    id: Slug
    solve: str
    text: str
    arguments: dict[str, str]
    rounding: Rounding


class CaseContent(_Closed):
    """What a case says, without the repair and without anything observed; its case digest covers all of it."""

    kind: Literal["shardproof.case"] = "shardproof.case"
    version: Literal[1] = 1
    id: str
    """SP-00001, or slug/variant where the variant has no id."""
    mechanism: Slug
    variant: int
    title: str
    family: str
    group: Group
    contract: ContractContent
    root_cause: str
    unsuccessful_approach: str
    why_it_matters: str
    scope: str
    references: tuple[Reference, ...]
    checks: tuple[CheckContent, ...]
    programs: tuple[ProgramContent, ...]
    """failing and unsuccessful, on the visible checks."""


class ObservedCheck(_Closed):
    """One check as a program was seen to answer it; `passed` is judged here, not taken from the program."""

    check: str
    actual: JsonValue
    expected: JsonValue
    passed: bool


class ProgramResult(_Closed):
    """How one program of a case ran."""

    role: RoleName
    part: Part
    sha256: str
    runs: int
    """Times that it was run; all gave the same."""
    ending: Ending
    exit_code: int | None
    detail: str
    observations: tuple[ObservedCheck, ...]
    problems: tuple[str, ...]
    """What contradicts the format of its report, or differs between runs."""
    unclear: tuple[str, ...]
    """Why its observations could not be had."""


CaseWord = Literal["held", "violated", "could not tell"]


class CaseResult(_Closed):
    """A verified case: what its programs did, the role rules, and the verdict."""

    kind: Literal["shardproof.case-result"] = "shardproof.case-result"
    version: Literal[1] = 1
    id: str
    mechanism: Slug
    family: str
    variant: int
    case_digest: str
    key: str
    """Over the case digest, all programs, the level and the interpreter: an equal key is an equal verification."""
    level: Level
    """The level achieved."""
    repair: Literal["run", "held back"]
    programs: tuple[ProgramResult, ...]
    broken: tuple[str, ...]
    """Role rules that do not hold."""
    verdict: CaseWord
    python: str
    platform: str
    time: str
    """When it was observed, UTC."""


class MapSummary(_Closed):
    """What one verification of cases came to."""

    kind: Literal["shardproof.map-summary"] = "shardproof.map-summary"
    version: Literal[1] = 1
    cases: int
    programs: int
    """Programs of all these cases, cached ones included."""
    held: int
    violated: int
    could_not_tell: int
    ran: int
    """Cases that were run now."""
    from_cache: int
    resumed: int
    """Cases that an earlier, killed run had written to the same folder."""
    repair_held_back: int
    verdict: CaseWord | Literal["nothing ran"]
    isolation: Isolation | None
    """As the first program of this run had it; None where none was run."""
    environment: Environment


class TellingPair(_Closed):
    """Two implementations and the checks on which they give different results."""

    left: str
    right: str
    checks: tuple[str, ...]


class MatrixImplementation(_Closed):
    """One implementation under a contract: slug/role, and how many of the contract's checks it fails."""

    name: str
    fails: int


class ContractMatrix(_Closed):
    """Which checks tell which implementations under one contract apart."""

    contract: Slug
    checks: tuple[str, ...]
    """slug: label, of every mechanism that shares the contract."""
    implementations: tuple[MatrixImplementation, ...]
    equivalent: tuple[tuple[str, ...], ...]
    """Implementations that give the same on all checks."""
    weakest: tuple[TellingPair, ...]
    """The pairs that the fewest checks tell apart, fewest first."""


class MatrixRecord(_Closed):
    """The separation of implementations, contract by contract, for one variant."""

    kind: Literal["shardproof.map-matrix"] = "shardproof.map-matrix"
    version: Literal[1] = 1
    variant: int
    contracts: tuple[ContractMatrix, ...]
