"""The registry of cases: one line for each id, appended to and never taken from."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from shardproof.errors import InvalidValueError
from shardproof.failures.mechanism import CATALOGUE, Mechanism
from shardproof.failures.store import write_record
from shardproof.records.map import CaseEntry

REGISTRY = "cases.jsonl"
ALIASES = {("local-shard-clip", 1): ("FA-99266",)}
"""Ids under which a variant was published elsewhere, before it was assigned one here."""


class RegistryError(InvalidValueError):
    """The registry does not fit its schema, or an id was reused, removed or renumbered."""


def read_registry(path: Path = CATALOGUE / REGISTRY) -> tuple[CaseEntry, ...]:
    """Read the registry and hold it against its own rules; a missing file is an empty one.

    Raises:
        RegistryError: a line does not fit the schema, or a rule does not hold; all are named.
    """
    if not path.exists():
        return ()
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entries.append(CaseEntry.model_validate_json(line))
        except ValidationError as error:
            raise RegistryError(f"Expected a case in {path}, line {number}: {error.errors()[0]['msg']}.") from None
    if said := registry_problems(entries):
        raise RegistryError(f"Expected the registry {path} as its rules have it: {'; '.join(said)}.")
    return tuple(entries)


def registry_problems(entries: Sequence[CaseEntry]) -> list[str]:
    """Name what breaks the registry's rules: ids without a gap, in order, each variant once, seals unbroken."""
    said, before = [], ""
    for number, entry in enumerate(entries, 1):
        if entry.id != _id(number):
            said.append(f"line {number} has id {entry.id}, expected {_id(number)}: lines are withdrawn, not removed")
        before = _seal(before, entry.id, entry.mechanism, entry.variant)
        if entry.seal != before:
            said.append(f"{entry.id}: its seal is not that of its line and those before it")
            before = entry.seal
        if (entry.reason is None) != (entry.state == "active"):
            said.append(f"{entry.id}: state {entry.state} and reason {entry.reason!r} do not go together")
    twice = Counter((entry.mechanism, entry.variant) for entry in entries)
    said += [f"{slug} variant {n} has {times} ids" for (slug, n), times in twice.items() if times > 1]
    names = Counter(name for entry in entries for name in entry.aliases)
    return said + [f"alias {name} names {times} cases" for name, times in names.items() if times > 1]


def registry_since(old: Sequence[CaseEntry], new: Sequence[CaseEntry]) -> list[str]:
    """Name what an older registry held that a newer one does not: ids, what they name, their aliases."""
    here = {entry.id: entry for entry in new}
    said = []
    for entry in old:
        now = here.get(entry.id)
        if now is None:
            said.append(f"{entry.id} is gone: a case is withdrawn, never removed")
        elif (now.mechanism, now.variant) != (entry.mechanism, entry.variant):
            said.append(
                f"{entry.id} named {entry.mechanism} variant {entry.variant}, now {now.mechanism} {now.variant}"
            )
        elif not set(entry.aliases) <= set(now.aliases):
            said.append(f"{entry.id} lost an alias of {list(entry.aliases)}")
        elif entry.state == "withdrawn" and now.state != "withdrawn":
            said.append(f"{entry.id} was withdrawn and is {now.state} again")
    return said


def registry_gaps(entries: Sequence[CaseEntry], mechanisms: Iterable[Mechanism]) -> list[str]:
    """Name variants without an id, and ids whose variant is no longer in the catalogue and that are not withdrawn."""
    mechanisms = list(mechanisms)
    there = {(one.slug, n) for one in mechanisms for n in one.says.variants}
    known = {(entry.mechanism, entry.variant) for entry in entries}
    said = []
    for one in mechanisms:
        if numbers := [str(n) for n in one.says.variants if (one.slug, n) not in known]:
            said.append(f"{one.slug}: no id for variants {', '.join(numbers)}; run `shardproof map cases --assign`")
    for entry in entries:
        missing = (entry.mechanism, entry.variant) not in there
        if missing and entry.state != "withdrawn":
            said.append(f"{entry.id}: {entry.mechanism} variant {entry.variant} is not in the catalogue; withdraw it")
    return said


def assigned(entries: Sequence[CaseEntry], mechanisms: Iterable[Mechanism]) -> tuple[CaseEntry, ...]:
    """The registry with an id for every variant that has none, after those that are there."""
    known = {(entry.mechanism, entry.variant) for entry in entries}
    result = list(entries)
    for mechanism in mechanisms:
        for n in mechanism.says.variants:
            if (mechanism.slug, n) not in known:
                result.append(_next(result, mechanism.slug, n))
    return tuple(result)


def retired(
    entries: Sequence[CaseEntry], name: str, state: Literal["deprecated", "withdrawn"], reason: str | None
) -> tuple[CaseEntry, ...]:
    """The registry with one case in another state: its line stays, its id is never used again.

    Args:
        entries: the registry.
        name: the case's id.
        state: deprecated cases are still run, withdrawn ones are not.
        reason: why, in one line.

    Raises:
        RegistryError: there is no such case, or no reason is given.
    """
    if name not in {entry.id for entry in entries} or not reason:
        raise RegistryError(f"Expected the id of a case and a reason, got {name!r}, reason={reason!r}.")
    change = {"state": state, "reason": reason}
    return tuple(
        CaseEntry.model_validate(entry.model_dump() | change) if entry.id == name else entry for entry in entries
    )


def write_registry(entries: Sequence[CaseEntry], path: Path = CATALOGUE / REGISTRY) -> None:
    """Write the registry whole; its rules are held first.

    Raises:
        RegistryError: it breaks a rule, or lacks what the file on disk holds; nothing is written.
    """
    said = registry_problems(entries) + registry_since(read_registry(path), entries)
    if said:
        raise RegistryError(f"Expected a registry as its rules have it: {'; '.join(said)}.")
    write_record(path, "".join(f"{entry.model_dump_json(exclude_defaults=True)}\n" for entry in entries))


def _next(entries: Sequence[CaseEntry], slug: str, n: int) -> CaseEntry:
    name, before = _id(len(entries) + 1), entries[-1].seal if entries else ""
    aliases = ALIASES.get((slug, n), ())
    return CaseEntry(id=name, mechanism=slug, variant=n, aliases=aliases, seal=_seal(before, name, slug, n))


def _id(number: int) -> str:
    return f"SP-{number:05d}"


def _seal(before: str, name: str, slug: str, n: int) -> str:
    return hashlib.sha256(f"{before}|{name}|{slug}|{n}".encode()).hexdigest()[:16]
