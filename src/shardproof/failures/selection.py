"""From names on a command line to planned cases: ids, aliases, slugs, families, and variants beside the registered."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.failures.cases import REGISTRY, read_registry
from shardproof.failures.mechanism import CATALOGUE, folders_named, load_mechanism
from shardproof.failures.plan import Plan, load, plan_case
from shardproof.records.map import CaseEntry


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Variants of one mechanism's folder, each with the name of its case."""

    folder: Path
    variants: tuple[tuple[str, int], ...]


def choose(names: Sequence[str], variants: Iterable[int] = (), catalogue: Path = CATALOGUE) -> list[Chosen]:
    """The cases that are named; all that are not withdrawn where nothing is named.

    Args:
        names: ids, aliases, slug/variant, slugs, families or folders.
        variants: numbers beside the registered ones, for names that are no single case.
        catalogue: the folder of mechanisms with its registry.

    Raises:
        InvalidValueError: a name is none of these, or names a withdrawn case.
        RegistryError: the registry breaks its rules.
    """
    entries = read_registry(catalogue / REGISTRY)
    single = {name: found for name in names if (found := _single(name, entries)) is not None}
    many = [name for name in names if name not in single]
    wanted = dict.fromkeys(single.values())
    for folder in folders_named(many, catalogue) if many or not names else []:
        ours = {entry.variant for entry in entries if entry.mechanism == folder.name and entry.state != "withdrawn"}
        unregistered = set() if ours else set(load_mechanism(folder).says.variants)
        wanted |= dict.fromkeys((folder.name, n) for n in sorted(ours | unregistered | set(variants)))
    return _grouped(wanted, entries, [*folders_named([], catalogue), *folders_named(many, catalogue)])


def plans(chosen: Iterable[Chosen], members: Path | None) -> Iterator[Plan]:
    """Render the chosen cases, one after the other.

    Raises:
        InvalidValueError: a mechanism cannot be read.
    """
    for one in chosen:
        loaded = load(load_mechanism(one.folder), members)
        for name, n in one.variants:
            yield plan_case(loaded, name, n)


def _single(name: str, entries: Sequence[CaseEntry]) -> tuple[str, int] | None:
    for entry in entries:
        if name == entry.id or name in entry.aliases:
            if entry.state == "withdrawn":
                raise InvalidValueError(f"Expected a case that can be run, got {name}, withdrawn: {entry.reason}")
            return entry.mechanism, entry.variant
    slug, slash, number = name.partition("/")
    return (slug, int(number)) if slash and number.isascii() and number.isdigit() and int(number) else None


def _grouped(wanted: Iterable[tuple[str, int]], entries: Sequence[CaseEntry], folders: Sequence[Path]) -> list[Chosen]:
    ids = {(entry.mechanism, entry.variant): entry.id for entry in entries}
    by_slug = {folder.name: folder for folder in folders}
    groups: dict[str, list[tuple[str, int]]] = {}
    for slug, n in wanted:
        if slug not in by_slug:
            raise InvalidValueError(f"Expected a mechanism of the catalogue, got {slug!r}.")
        groups.setdefault(slug, []).append((ids.get((slug, n), f"{slug}/{n}"), n))
    return [Chosen(by_slug[slug], tuple(cases)) for slug, cases in groups.items()]
