"""Evaluation groups: mechanisms that a split may not part, because a solution of one gives another away."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.failures.fragments import program_key
from shardproof.failures.mechanism import Mechanism, member_of
from shardproof.failures.roles import sources
from shardproof.records.map import CaseEntry
from shardproof.records.map_share import EvaluationGroup, GroupLink, GroupsRecord, LinkKind, SplitLevel

BLOCKS = {
    "own, combine, sync": ("own", "combine", "sync"),
    "scale, weight, accum": ("scale", "weight", "accum"),
    "order, policy, numeric": ("order", "policy", "numeric"),
}
"""Groups between which solutions leak strongly, by the name of their block."""

HELD_BACK = "the same program, held back"
Link = tuple[LinkKind, str]


@dataclasses.dataclass(frozen=True)
class Unit:
    """One mechanism as grouping sees it: its slug, its declared group, and what it may share with others."""

    slug: str
    group: str
    links: frozenset[Link]


def units(mechanisms: Iterable[Mechanism], members: Path | None, level: SplitLevel = "group") -> tuple[Unit, ...]:
    """Read what each mechanism may share with others: group, contract, programs, repair, reports.

    Args:
        mechanisms: of the catalogue.
        members: the folder of repairs; None: they are held back and join nothing.
        level: `block` also joins the groups of a block.

    Raises:
        InvalidValueError: a program cannot be read or is no Python.
    """
    return tuple(_unit(mechanism, members, level) for mechanism in mechanisms)


def components(units: Sequence[Unit]) -> tuple[tuple[Unit, ...], ...]:
    """Join units that share a link, by union-find; components and their units in order of slug.

    >>> a, b, c = (Unit(s, s, frozenset({("contract", k)})) for s, k in [("a", "x"), ("b", "y"), ("c", "x")])
    >>> [[unit.slug for unit in component] for component in components([a, b, c])]
    [['a', 'c'], ['b']]
    """
    root = list(range(len(units)))
    first: dict[Link, int] = {}
    for index, unit in enumerate(units):
        for link in unit.links:
            root[_find(root, index)] = _find(root, first.setdefault(link, index))
    found: dict[int, list[Unit]] = {}
    for index, unit in enumerate(units):
        found.setdefault(_find(root, index), []).append(unit)
    ordered = [tuple(sorted(component, key=lambda unit: unit.slug)) for component in found.values()]
    return tuple(sorted(ordered, key=lambda component: component[0].slug))


def component_id(component: Iterable[Unit]) -> str:
    """The name of a component: its declared groups, sorted. It stays when a mechanism of these groups is added."""
    return "+".join(sorted({unit.group for unit in component}))


def groups_of(
    mechanisms: Sequence[Mechanism], entries: Sequence[CaseEntry], members: Path | None, level: SplitLevel = "group"
) -> GroupsRecord:
    """All evaluation groups, with their cases and the reasons that hold each together.

    Raises:
        InvalidValueError: a program cannot be read or is no Python.
    """
    cases = cases_by_mechanism(entries)
    groups = tuple(_group(component, cases) for component in components(units(mechanisms, members, level)))
    return GroupsRecord(level=level, repairs="held back" if members is None else "seen", groups=groups)


def cases_by_mechanism(entries: Iterable[CaseEntry]) -> dict[str, list[str]]:
    """The ids of each mechanism's cases that are not withdrawn."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.state != "withdrawn":
            found.setdefault(entry.mechanism, []).append(entry.id)
    return found


def _group(component: Sequence[Unit], cases: Mapping[str, Sequence[str]]) -> EvaluationGroup:
    shared: dict[Link, list[str]] = {}
    for unit in component:
        for link in unit.links:
            shared.setdefault(link, []).append(unit.slug)
    repairs = {key for kind, key in shared if kind == "repair"}
    links = {_shown(link, repairs, slugs) for link, slugs in shared.items() if len(slugs) > 1}
    return EvaluationGroup(
        id=component_id(component),
        mechanisms=tuple(unit.slug for unit in component),
        cases=tuple(sorted(case for unit in component for case in cases.get(unit.slug, ()))),
        links=tuple(sorted(links, key=lambda link: (link.kind, link.key, link.mechanisms))),
    )


def _shown(link: Link, repairs: set[str], slugs: Sequence[str]) -> GroupLink:
    # The digest of a repair's tree would confirm a guess of the repair: the record does not hold it.
    kind, key = ("repair", HELD_BACK) if link[1] in repairs else link
    return GroupLink(kind=kind, key=key, mechanisms=tuple(slugs))


def _unit(mechanism: Mechanism, members: Path | None, level: SplitLevel) -> Unit:
    says = mechanism.says
    links: set[Link] = {("group", says.group), ("contract", says.contract), *_tree_links(mechanism, members)}
    links |= {("report", _address(reference.url)) for reference in says.references if reference.kind != "documentation"}
    if level == "block":
        links.add(("block", next(name for name, groups in BLOCKS.items() if says.group in groups)))
    return Unit(says.slug, says.group, frozenset(links))


def _tree_links(mechanism: Mechanism, members: Path | None) -> Iterator[Link]:
    """A digest for each program's tree: a wrong program of one may be the repair of another, so roles share a kind."""
    for role, path in sources(mechanism, member_of(mechanism.slug, members)).items():
        try:
            key = hashlib.sha256(" ".join(program_key(path.read_text(encoding="utf-8"))).encode()).hexdigest()
        except (OSError, ValueError, SyntaxError) as error:
            raise InvalidValueError(f"Expected Python in UTF-8, got {path}: {error}.") from error
        yield "program", key
        if role == "repair":
            yield "repair", key


def _address(url: str) -> str:
    """A report's address without what does not change the report: case, trailing slash, fragment."""
    return url.partition("#")[0].rstrip("/").lower()


def _find(root: list[int], index: int) -> int:
    while root[index] != index:
        root[index] = root[root[index]]
        index = root[index]
    return index
