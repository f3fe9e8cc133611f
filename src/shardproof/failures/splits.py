"""Splits of the catalogue into train and test that keep evaluation groups whole, and checks of anyone's split."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from shardproof.errors import InvalidValueError
from shardproof.failures.exact_json import parsed
from shardproof.failures.groups import Unit, component_id, components
from shardproof.failures.store import record_text, write_record
from shardproof.records.map import CaseEntry
from shardproof.records.map_share import KeptOut, Sha256, Split, SplitLevel

Side = Literal["train", "test"]
LARGEST = 64 * 1024 * 1024


class SplitError(InvalidValueError):
    """No split as asked can be made: one group only, or an older split that straddles a group today."""


class ListedSplit(BaseModel):
    """A split that somebody else's script made: lists of ids, and what it says about itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: tuple[str, ...]
    test: tuple[str, ...]
    validation: tuple[str, ...] | None = None
    catalogue_digest: Sha256 | None = None
    level: SplitLevel = "group"


def make_split(
    units: Sequence[Unit],
    entries: Sequence[CaseEntry],
    *,
    seed: int,
    fraction: float,
    level: SplitLevel,
    digest: str,
    old: Split | ListedSplit | None = None,
) -> Split:
    """Assign whole groups to train and test, in the order of a seeded hash of each group.

    Args:
        units: the mechanisms, read at `level`.
        entries: the registry; withdrawn cases are on no side.
        seed: any integer; the same seed gives the same split.
        fraction: share of cases for test, between 0 and 1; whole groups meet it as closely as their order allows.
        level: what stays whole.
        digest: the catalogue's, written into the split.
        old: a split whose cases keep their sides; a new mechanism that would join groups of both is kept out.

    Returns:
        The split, with the fraction that was met.

    Raises:
        SplitError: there are fewer than two groups, or `old` already parts one.
    """
    if not 0 < fraction < 1:
        raise InvalidValueError(f"Expected a fraction between 0 and 1, got fraction={fraction!r}.")
    fixed = {} if old is None else _sides_by_mechanism(old, entries)
    taken, left_out = _without_bridges(units, fixed, entries)
    found = components(taken)
    sides = _assigned(found, fixed, _sizes(found, entries), seed, fraction)
    lists: dict[Side, list[str]] = {"train": [], "test": []}
    by_mechanism = {unit.slug: sides[component_id(one)] for one in found for unit in one}
    for entry in active(entries):
        if entry.mechanism in by_mechanism:
            lists[by_mechanism[entry.mechanism]].append(entry.id)
    if not lists["train"] or not lists["test"]:
        raise SplitError(
            f"Expected at least two {level}s with cases, to have two sides, got {len(found)}: "
            f"{', '.join(component_id(one) for one in found)}."
        )
    return Split(
        level=level,
        seed=seed,
        fraction_asked=fraction,
        fraction_met=len(lists["test"]) / (len(lists["train"]) + len(lists["test"])),
        catalogue_digest=digest,
        groups=dict(sorted(sides.items())),
        train=tuple(lists["train"]),
        test=tuple(lists["test"]),
        kept_out=tuple(
            KeptOut(id=entry.id, why=left_out[entry.mechanism])
            for entry in active(entries)
            if entry.mechanism in left_out
        ),
    )


def read_split(path: Path) -> Split | ListedSplit:
    """Read a split: our own record, or an object with the lists `train` and `test` and nothing unknown.

    Raises:
        InvalidValueError: the file cannot be read or is neither.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise InvalidValueError(f"Expected a split of at most {LARGEST} bytes, got {path}, which is larger.")
        document = parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"Expected a readable split, got {path}: {error}.") from error
    if not isinstance(document, dict):
        raise InvalidValueError(f"Expected an object with train and test, got {path}: {type(document).__name__}.")
    model = Split if "kind" in document else ListedSplit
    try:
        return model.model_validate(document)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)[:5])
        raise InvalidValueError(f"Expected a split with lists of ids train and test, got {path}: {said}.") from None


def write_split(path: Path, split: Split) -> None:
    """Write a split whole or not at all.

    Raises:
        InvalidValueError: the file cannot be written.
    """
    write_record(path, record_text(split) + "\n")


def _sides_by_mechanism(old: Split | ListedSplit, entries: Sequence[CaseEntry]) -> dict[str, Side]:
    if isinstance(old, ListedSplit) and old.validation is not None:
        raise SplitError("Expected a split into train and test to continue, got one with validation.")
    names = names_of(entries)
    found: dict[str, Side] = {}
    ids: list[tuple[Side, tuple[str, ...]]] = [("train", old.train), ("test", old.test)]
    for side, listed in ids:
        for name in listed:
            if name not in names:
                raise SplitError(f"Expected cases of this catalogue in the older split, got {name!r}.")
            if found.setdefault(names[name].mechanism, side) != side:
                raise SplitError(f"Expected an older split that parts no mechanism, got {name} on side {side}.")
    return found


def _without_bridges(
    units: Sequence[Unit], fixed: Mapping[str, Side], entries: Sequence[CaseEntry]
) -> tuple[list[Unit], dict[str, str]]:
    """The units that can be placed, and why each other one would join both sides; new ones by their ids."""
    taken = [unit for unit in units if unit.slug in fixed]
    for one in components(taken):
        if len({fixed[unit.slug] for unit in one}) > 1:
            raise SplitError(
                f"Expected an older split that parts no group of today's catalogue, got {component_id(one)} on both "
                f"sides: {', '.join(f'{unit.slug} in {fixed[unit.slug]}' for unit in one if unit.slug in fixed)}."
            )
    left_out: dict[str, str] = {}
    order = {entry.mechanism: index for index, entry in reversed(list(enumerate(entries)))}
    new = [unit for unit in units if unit.slug not in fixed]
    for unit in sorted(new, key=lambda unit: (order.get(unit.slug, len(order)), unit.slug)):
        joined = next(one for one in components([*taken, unit]) if unit in one)
        found = {other.slug: fixed[other.slug] for other in joined if other.slug in fixed}
        if len(set(found.values())) > 1:
            pairs = ", ".join(f"{slug} in {side}" for slug, side in found.items())
            left_out[unit.slug] = f"{unit.slug} would join both sides: {pairs}"
        else:
            taken.append(unit)
    return taken, left_out


def _sizes(found: Sequence[Sequence[Unit]], entries: Sequence[CaseEntry]) -> dict[str, int]:
    cases = Counter(entry.mechanism for entry in active(entries))
    return {component_id(one): sum(cases[unit.slug] for unit in one) for one in found}


def _assigned(
    found: Sequence[Sequence[Unit]], fixed: Mapping[str, Side], sizes: Mapping[str, int], seed: int, fraction: float
) -> dict[str, Side]:
    sides: dict[str, Side] = {}
    for one in found:
        for unit in one:
            if unit.slug in fixed:
                sides[component_id(one)] = fixed[unit.slug]
    free = sorted(
        (component_id(one) for one in found if component_id(one) not in sides), key=lambda name: _rank(seed, name)
    )
    wanted, has = fraction * sum(sizes.values()), sum(sizes[name] for name, side in sides.items() if side == "test")
    for name in free:
        nearer = abs(has + sizes[name] - wanted) < abs(has - wanted)
        sides[name] = "test" if nearer else "train"
        has += sizes[name] if nearer else 0
    # A fraction smaller than every group, or larger than all but one, still leaves no side empty.
    for side in ("test", "train"):
        if free and side not in sides.values() and len(sides) > 1:
            sides[min(free, key=lambda name: (sizes[name], _rank(seed, name)))] = side
    return sides


def _rank(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}|{name}".encode()).hexdigest()


def active(entries: Iterable[CaseEntry]) -> list[CaseEntry]:
    """The entries that are not withdrawn."""
    return [entry for entry in entries if entry.state != "withdrawn"]


def names_of(entries: Iterable[CaseEntry]) -> dict[str, CaseEntry]:
    """Every name of a case: its id, its aliases, slug/variant."""
    found: dict[str, CaseEntry] = {}
    for entry in entries:
        found |= dict.fromkeys((entry.id, *entry.aliases, f"{entry.mechanism}/{entry.variant}"), entry)
    return found
