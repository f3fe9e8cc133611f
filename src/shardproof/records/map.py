"""What is stored about the Failure Map: the two TOML files that authors write, cases, and verification results."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

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
    variants: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=3)]
    root_cause: Prose
    unsuccessful_approach: Prose
    why_it_matters: Prose
    scope: Prose
    references: Annotated[tuple[Reference, ...], Field(min_length=1)]
