"""Checks of a split, whoever made it: straddling groups, unknown and missing cases, empty sides, another catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardproof.failures.groups import Unit, component_id, components
from shardproof.failures.splits import ListedSplit, active, names_of
from shardproof.records.map import CaseEntry
from shardproof.records.map_share import Split, SplitCheck, SplitLevel


def check_split(
    split: Split | ListedSplit,
    units: Sequence[Unit],
    entries: Sequence[CaseEntry],
    digest: str,
    level: SplitLevel = "group",
) -> SplitCheck:
    """Name everything that is wrong with a split, whoever made it.

    Args:
        split: as read by `read_split`.
        units: the mechanisms, read at the level that is asked of the split.
        entries: the registry.
        digest: the catalogue's.
        level: that at which `units` were read.

    Returns:
        The check: `mismatch` for another catalogue's split, `violated` where something is wrong with it.
    """
    sides, names = _listed(split), names_of(entries)
    kept = {} if isinstance(split, ListedSplit) else {one.id: one.why for one in split.kept_out}
    where: dict[str, set[str]] = {}
    for side, ids in sides.items():
        for name in ids:
            if name in names:
                where.setdefault(names[name].mechanism, set()).add(side)
    missing_units = [unit for unit in units if unit.slug not in where and not _all_kept(unit.slug, kept, entries)]
    present = [unit for unit in units if unit.slug in where] + missing_units
    straddling = [said for one in components(present) if (said := _straddles(one, where))]
    problems = [*_id_problems(sides, names), *_missing(sides, kept, names, entries)]
    problems += [f"side {side} is empty" for side, ids in sides.items() if not ids]
    if isinstance(split, Split) and split.level == level:
        problems += _own_problems(split, units, entries, where)
    agrees = None if split.catalogue_digest is None else split.catalogue_digest == digest
    return SplitCheck(
        level=level,
        sides={side: len(ids) for side, ids in sides.items()},
        catalogue_digest=digest,
        digest_agrees=agrees,
        straddling=tuple(straddling),
        problems=tuple(problems),
        verdict="mismatch" if agrees is False else "violated" if straddling or problems else "held",
    )


def _listed(split: Split | ListedSplit) -> dict[str, tuple[str, ...]]:
    sides = {"train": split.train, "test": split.test}
    more = split.validation if isinstance(split, ListedSplit) else None
    return sides | ({"validation": more} if more is not None else {})


def _straddles(component: Sequence[Unit], where: Mapping[str, set[str]]) -> str | None:
    sides = {side for unit in component for side in where.get(unit.slug, ())}
    if len(sides) < 2:
        return None
    parts = []
    for side in sorted(sides):
        slugs = [unit.slug for unit in component if side in where.get(unit.slug, ())]
        parts.append(f"{', '.join(slugs)} in {side}")
    return f"{component_id(component)}: {'; '.join(parts)}"


def _id_problems(sides: Mapping[str, Sequence[str]], names: Mapping[str, CaseEntry]) -> list[str]:
    said = []
    seen: dict[str, str] = {}
    for side, ids in sides.items():
        for name in ids:
            entry = names.get(name)
            if entry is None:
                said.append(f"{name!r:.80} in {side} is no case of the catalogue")
            elif entry.state == "withdrawn":
                said.append(f"{name} in {side} is withdrawn: {entry.reason}")
            elif entry.id in seen:
                said.append(f"{name} in {side} is the case {entry.id}, which is in {seen[entry.id]} already")
            else:
                seen[entry.id] = side
    return said


def _missing(
    sides: Mapping[str, Sequence[str]],
    kept: Mapping[str, str],
    names: Mapping[str, CaseEntry],
    entries: Sequence[CaseEntry],
) -> list[str]:
    there = {names[name].id for ids in sides.values() for name in ids if name in names}
    said = [f"{name} is kept out and on a side" for name in kept if name in there]
    said += [f"{name!r:.80} is kept out and is no case of the catalogue" for name in kept if name not in names]
    missing = [entry.id for entry in active(entries) if entry.id not in there and entry.id not in kept]
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return said + ([f"{len(missing)} cases are on no side: {shown}"] if missing else [])


def _all_kept(slug: str, kept: Mapping[str, str], entries: Sequence[CaseEntry]) -> bool:
    cases = [entry.id for entry in active(entries) if entry.mechanism == slug]
    return bool(cases) and all(case in kept for case in cases)


def _own_problems(
    split: Split, units: Sequence[Unit], entries: Sequence[CaseEntry], where: Mapping[str, set[str]]
) -> list[str]:
    """What a record of ours says about itself and does not keep."""
    said = []
    total = len(split.train) + len(split.test)
    if total and split.fraction_met != len(split.test) / total:
        said.append(f"fraction_met is {split.fraction_met}, its lists give {len(split.test) / total}")
    names = names_of(entries)
    out = {names[one.id].mechanism for one in split.kept_out if one.id in names}
    placed = [unit for unit in units if unit.slug in where]
    found = {component_id(one): {s for unit in one for s in where[unit.slug]} for one in components(placed)}
    if {name: {side} for name, side in split.groups.items()} != found:
        said.append("its groups are not on the sides that its lists say")
    for unit in units:
        if unit.slug in out:
            joined = next(one for one in components([*placed, unit]) if unit in one)
            if len({side for other in joined for side in where.get(other.slug, ())}) < 2:
                said.append(f"{unit.slug} is kept out and would not join both sides")
    return said
