"""Which checks tell which implementations apart, for mechanisms that share a contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from shardproof.failures.mechanism import Mechanism, checks_of, function_of, member_of
from shardproof.failures.roles import observe, sources
from shardproof.failures.values import same
from shardproof.records.map import ContractMatrix, MatrixImplementation, MatrixRecord, TellingPair

WEAKEST = 10
"""Pairs that are listed for a contract; a pair that no check tells apart is among the equivalent ones."""


def separation(mechanisms: Iterable[Mechanism], members: Path | None, variant: int = 1) -> MatrixRecord:
    """Ask every implementation under a contract the checks of all its mechanisms, in this process.

    Args:
        mechanisms: those of one contract are held against each other.
        members: the folder of repairs, which take part where they are there.
        variant: the variant whose checks are asked.

    Raises:
        InvalidValueError: a file cannot be run.
    """
    shared: dict[str, list[Mechanism]] = {}
    for mechanism in mechanisms:
        shared.setdefault(mechanism.contract.says.id, []).append(mechanism)
    contracts = tuple(_contract(name, ours, members, variant) for name, ours in sorted(shared.items()))
    return MatrixRecord(variant=variant, contracts=contracts)


def _contract(name: str, mechanisms: Sequence[Mechanism], members: Path | None, variant: int) -> ContractMatrix:
    asked = [(one.slug, check) for one in mechanisms for check in checks_of(one.folder / "checks.py", variant)]
    labels = [f"{slug}: {check.label}" for slug, check in asked]
    given, fails = {}, []
    for one in mechanisms:
        for role, path in sources(one, member_of(one.slug, members)).items():
            rows = observe(function_of(path, "solve"), [check for _, check in asked])
            given[f"{one.slug}/{role}"] = [row.actual for row in rows]
            fails.append(MatrixImplementation(name=f"{one.slug}/{role}", fails=sum(not row.passed for row in rows)))
    pairs = [_pair(left, right, given, labels) for left, right in combinations(given, 2)]
    return ContractMatrix(
        contract=name,
        checks=tuple(labels),
        implementations=tuple(fails),
        equivalent=tuple(_classes(given)),
        weakest=tuple(sorted((pair for pair in pairs if pair.checks), key=lambda pair: len(pair.checks))[:WEAKEST]),
    )


def _pair(left: str, right: str, given: Mapping[str, Sequence[object]], labels: Sequence[str]) -> TellingPair:
    rows = zip(labels, given[left], given[right], strict=True)
    return TellingPair(left=left, right=right, checks=tuple(label for label, a, b in rows if not same(a, b)))


def _classes(given: Mapping[str, Sequence[object]]) -> list[tuple[str, ...]]:
    classes: list[list[str]] = []
    for name, values in given.items():
        for known in classes:
            if same(list(given[known[0]]), list(values)):
                known.append(name)
                break
        else:
            classes.append([name])
    return [tuple(names) for names in classes if len(names) > 1]
