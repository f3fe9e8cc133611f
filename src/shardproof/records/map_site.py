"""What the static pages of the Failure Map are made from: one record for each case, and one for the rest."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from shardproof.records.isolation import Level
from shardproof.records.map import (
    CaseContent,
    CaseState,
    CaseWord,
    CheckContent,
    ContractContent,
    ProgramContent,
    ProgramResult,
    Reference,
    Slug,
)
from shardproof.records.map_share import EvaluationGroup

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Tier = Literal["open", "member"]
SiteWord = CaseWord | Literal["not run"]
"""A verdict; `not run` where no observation of the case was given, which is never counted as held."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SiteObserved(_Closed):
    """What was observed of a case, as far as its tier shows it."""

    level: Level
    """The isolation level achieved."""
    programs: tuple[ProgramResult, ...]
    """In the open tier none of the repair."""
    repair: Literal["run", "not run"]
    """Whether the verdict is also about the repair; in the open tier its observations are held back all the same."""
    broken: tuple[str, ...]
    """Role rules that do not hold; in the open tier those about the repair are counted, not told."""
    broken_held_back: int
    verdict: CaseWord
    python: str
    platform: str
    time: str


class SiteMember(_Closed):
    """What the member tier has beyond the open one."""

    repair: ProgramContent
    held_back: ProgramContent | None
    """The repair on the held-back checks, where there are some."""
    held_back_checks: tuple[CheckContent, ...]


class SiteBundle(_Closed):
    """The zip bundle that lies beside a case's page; nothing in it is held back, in either tier."""

    file: FileName
    sha256: Sha256
    bytes: int


class SiteCase(_Closed):
    """One case's page."""

    kind: Literal["shardproof.map-site-case"] = "shardproof.map-site-case"
    version: Literal[1] = 1
    tier: Tier
    digest: Sha256
    """Over `content` alone."""
    evaluation_group: str
    state: CaseState
    reason: str | None
    """Why it is deprecated."""
    aliases: tuple[str, ...]
    content: CaseContent
    member: SiteMember | None
    """None in the open tier, and where no repair of the mechanism lies at hand."""
    observed: SiteObserved | None
    """None: not run."""
    bundle: SiteBundle


class SiteRow(_Closed):
    """One case in a list of cases."""

    id: str
    variant: int
    state: CaseState
    checks: int
    failing_fails: int | None
    """Checks that the failing implementation fails; None where it was not seen."""
    unsuccessful_fails: int | None
    word: SiteWord


class SiteCounts(_Closed):
    """How many cases have which verdict; they add up to `cases`."""

    cases: int
    held: int
    violated: int
    could_not_tell: int
    not_run: int


class SiteMechanism(_Closed):
    """One mechanism's page."""

    slug: Slug
    title: str
    family: Slug
    evaluation_group: str
    contract: ContractContent
    root_cause: str
    unsuccessful_approach: str
    why_it_matters: str
    scope: str
    references: tuple[Reference, ...]
    counts: SiteCounts
    cases: tuple[SiteRow, ...]


class SiteFamily(_Closed):
    """One family's page: its mechanisms, in the order of their slugs."""

    slug: Slug
    counts: SiteCounts
    mechanisms: tuple[Slug, ...]


class SiteWithdrawn(_Closed):
    """An id that is not used again."""

    id: str
    mechanism: str
    variant: int
    reason: str


class SiteIndex(_Closed):
    """The home page, and all that the pages of families and mechanisms say."""

    kind: Literal["shardproof.map-site"] = "shardproof.map-site"
    version: Literal[1] = 1
    tier: Tier
    catalogue_digest: Sha256
    counts: SiteCounts
    families: tuple[SiteFamily, ...]
    mechanisms: tuple[SiteMechanism, ...]
    groups: tuple[EvaluationGroup, ...]
    withdrawn: tuple[SiteWithdrawn, ...]
    made_with: str
    """The version of shardproof that made the pages."""
