"""From names on a command line to planned cases: ids, aliases, slugs, families, and variants beside the registered."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    entries, ours = read_registry(catalogue / REGISTRY), folders_named([], catalogue)
    single = {name: found for name in names if (found := _single(name, entries)) is not None}
    many = [name for name in names if name not in single]
    wanted = {(_folder(slug, ours), n): None for slug, n in single.values()}
    for folder in folders_named(many, catalogue) if many or not names else []:
        numbers = _registered(folder, entries) if folder in ours else set()
        numbers = numbers or set(load_mechanism(folder).says.variants)
        wanted |= dict.fromkeys((folder, n) for n in sorted(numbers | set(variants)))
    return _grouped(wanted, _ids(entries, ours))


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


def _folder(slug: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        if folder.name == slug:
            return folder
    raise InvalidValueError(f"Expected a mechanism of the catalogue, got {slug!r}.")


def _ids(entries: Sequence[CaseEntry], folders: Sequence[Path]) -> dict[tuple[Path, int], str]:
    # The folder of a withdrawn mechanism may be gone; a withdrawn variant has no name to run under.
    by_slug = {folder.name: folder for folder in folders}
    kept = [one for one in entries if one.mechanism in by_slug and one.state != "withdrawn"]
    return {(by_slug[one.mechanism], one.variant): one.id for one in kept}


def _registered(folder: Path, entries: Sequence[CaseEntry]) -> set[int]:
    return {one.variant for one in entries if one.mechanism == folder.name and one.state != "withdrawn"}


def _grouped(wanted: Iterable[tuple[Path, int]], ids: Mapping[tuple[Path, int], str]) -> list[Chosen]:
    groups: dict[Path, list[tuple[str, int]]] = {}
    for folder, n in wanted:
        groups.setdefault(folder, []).append((ids.get((folder, n), f"{folder.name}/{n}"), n))
    return [Chosen(folder, tuple(cases)) for folder, cases in groups.items()]
