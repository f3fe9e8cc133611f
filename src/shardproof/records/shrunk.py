"""What shrinking stores: which part of a layout is left, the call on it, and the right and the observed result."""

from __future__ import annotations

from typing import Literal

from shardproof.records.audit import CellWord, LayoutPlan, Number, Profile, RankObservation, Record, SubjectPlan


class Kept(Record):
    """The part of a layout that is left.

    places: axis -> the indices along it that are kept, in order. tensors: names of the kept tensors. longest: tensor
    -> for each dim the most rows that are kept, of each slice where the slices' lengths are given.
    """

    places: dict[str, tuple[int, ...]]
    tensors: tuple[str, ...]
    longest: dict[str, tuple[int, ...]]


class ShrunkRank(Record):
    """One rank around the call: each gradient that it holds, what it should become, and what it became."""

    rank: int
    names: tuple[str, ...]
    given: tuple[tuple[Number, ...], ...]
    right: tuple[tuple[Number, ...], ...]
    observed: tuple[tuple[Number, ...] | None, ...]
    norm: Number | None = None
    error: str | None = None


class Shrunk(Record):
    """The smallest failure that was found; `observation` is what the ranks of one fresh run of it showed."""

    schema_version: Literal["shardproof.audit-shrunk/1"] = "shardproof.audit-shrunk/1"
    plan_sha256: str
    cell: str
    subject: SubjectPlan
    profile: Profile
    word: CellWord
    clauses: tuple[str, ...]
    kind: str
    layout: LayoutPlan
    kept: Kept
    limit: Number
    norm: Number
    ranks: tuple[ShrunkRank, ...]
    observation: tuple[RankObservation, ...]
    tries: int
    seconds: float
    notes: tuple[str, ...] = ()
