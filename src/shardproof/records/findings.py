"""What a page of findings says: each built-in subject's cells, from stored runs, and how each failure was shown."""

from __future__ import annotations

from typing import Literal

from shardproof.records.audit import CellWord, Number, Record
from shardproof.records.shrunk import ShrunkRank


class SmallestCase(Record):
    """A shrunk failure: the limit, the right norm, and what each rank held, should have and had."""

    limit: Number
    norm: Number
    ranks: tuple[ShrunkRank, ...]


class FindingCell(Record):
    """One cell: its verdict, the clauses it violates, and the file that shows it, with the exit code seen of it."""

    layout: str
    title: str
    verdict: CellWord
    reason: str
    clauses: tuple[str, ...]
    strict: tuple[str, ...]
    command: str
    smallest: SmallestCase | None = None
    reproduction: str | None = None
    exit_code: int | None = None


class FindingSubject(Record):
    """A subject in one run; calls: the real library's function; explained: the diagnosis in one line each."""

    subject: str
    calls: str
    run_id: str
    plan_sha256: str
    time: str
    python: str
    platform: str
    packages: dict[str, str]
    explained: tuple[str, ...]
    cells: tuple[FindingCell, ...]


class Findings(Record):
    """Everything that the page says; limits: what the runs do not show."""

    schema_version: Literal["shardproof.findings/1"] = "shardproof.findings/1"
    subjects: tuple[FindingSubject, ...]
    limits: tuple[str, ...]
