"""The role rules: what repair, failing and unsuccessful implementations must do on the checks of every variant."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from shardproof.errors import InvalidValueError
from shardproof.failures.mechanism import Check, Mechanism, Member, checks_of, function_of, load_mechanism, member_of
from shardproof.failures.values import plain, same

Role = Literal["failing", "unsuccessful", "repair"]
RULES = 2
"""The version of the role rules and of the judge; a change makes remembered verdicts old."""
WRONG: tuple[Literal["failing"], Literal["unsuccessful"]] = ("failing", "unsuccessful")


@dataclasses.dataclass(frozen=True)
class Row:
    """What an implementation gave on one check, as JSON carries it."""

    label: str
    actual: object
    passed: bool


@dataclasses.dataclass(frozen=True)
class Trial:
    """What trying variants in this process found: how many, which rules are broken, whose repair is held back."""

    tried: int
    broken: tuple[str, ...]
    held_back: tuple[str, ...]


def observe(solve: Callable[..., Any], checks: Sequence[Check]) -> tuple[Row, ...]:
    """Ask an implementation all checks in this process; an exception is observed as {"raises": its name}."""
    rows = []
    for check in checks:
        try:
            actual = plain(solve(*copy.deepcopy(check.arguments)))
        except (Exception, SystemExit) as error:
            actual = {"raises": type(error).__name__}
        rows.append(Row(check.label, actual, same(actual, plain(check.expected))))
    return tuple(rows)


def broken_roles(seen: Mapping[Role, Sequence[Row]], checks: Sequence[Check]) -> list[str]:
    """Name every role rule that does not hold; the repair's are left out where it was not run.

    Args:
        seen: for each implementation its rows on `checks`, in their order.
        checks: the visible checks of one variant.

    Returns:
        One sentence for each broken rule; empty when all hold.
    """
    return broken_rows(seen) + _accepted_idlers(checks)


def broken_rows(seen: Mapping[Role, Sequence[Row]]) -> list[str]:
    """The rules that results alone decide, whatever was asked."""
    said = []
    for row in seen.get("repair", ()):
        if not row.passed:
            said.append(f"repair fails {row.label!r}: it gives {_short(row.actual)}")
    for role in WRONG:
        if all(row.passed for row in seen[role]):
            said.append(f"{role} passes all {len(seen[role])} checks; it must fail at least one")
    pairs = zip(seen["failing"], seen["unsuccessful"], strict=True)
    if all(same(failing.actual, other.actual) for failing, other in pairs):
        said.append("failing and unsuccessful give the same result on every check; at least one must differ")
    return said


def broken_held_back(seen: Mapping[Role, Sequence[Row]]) -> list[str]:
    """The same for the held-back checks: the repair passes them all, each wrong implementation fails one."""
    said = [
        f"repair fails the held-back check {row.label!r}: it gives {_short(row.actual)}"
        for row in seen.get("repair", ())
        if not row.passed
    ]
    idle = [role for role in WRONG if role in seen and all(row.passed for row in seen[role])]
    return said + [f"{role} passes all held-back checks; they must tell it from a repair" for role in idle]


def try_variant(mechanism: Mechanism, n: int, member: Member | None) -> list[str]:
    """Run one variant's implementations in this process and name every role rule that is broken.

    Raises:
        InvalidValueError: a file cannot be run or gives no checks.
    """
    solves = {role: function_of(path, "solve") for role, path in sources(mechanism, member).items()}
    checks = checks_of(mechanism.folder / "checks.py", n)
    seen = {role: observe(solve, checks) for role, solve in solves.items()}
    said = broken_roles(seen, checks)
    for role, solve in solves.items():
        if not _equal_rows(observe(solve, checks[::-1])[::-1], seen[role]):
            said.append(f"{role} gives another result when it is asked again in another order; it keeps something")
    if member is not None and member.held_back is not None:
        hidden = checks_of(member.held_back, n)
        said += broken_held_back({role: observe(solve, hidden) for role, solve in solves.items()})
    return said


def sources(mechanism: Mechanism, member: Member | None) -> dict[Role, Path]:
    """The files of a mechanism's implementations; without `member` the repair is held back."""
    files: dict[Role, Path] = {role: mechanism.folder / f"{role}.py" for role in WRONG}
    return files | ({"repair": member.repair} if member is not None else {})


def _accepted_idlers(checks: Sequence[Check]) -> list[str]:
    # What these would give is known without running them.
    expected = [plain(check.expected) for check in checks]
    firsts = [plain(check.arguments[0]) if check.arguments else None for check in checks]
    raised = {value["raises"] for value in expected if isinstance(value, dict) and set(value) == {"raises"}}
    idlers: dict[str, list[object]] = {
        "one that returns None": [None] * len(expected),
        "one that returns its first argument": firsts,
        **{f"one that always raises {name}": [{"raises": name}] * len(expected) for name in sorted(raised)},
    }
    return [f"{idler} passes all checks" for idler, given in idlers.items() if all(map(same, given, expected))]


def _equal_rows(left: Sequence[Row], right: Sequence[Row]) -> bool:
    return all(same(one.actual, other.actual) for one, other in zip(left, right, strict=True))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else text[:160] + "…"


def try_all(folders: Sequence[Path], variants: Sequence[int], members: Path | None) -> Trial:
    """Try the mechanisms in `folders` over their own variants and the given ones.

    Args:
        folders: the mechanisms' directories.
        variants: numbers beside each mechanism's own.
        members: the folder of repairs; None: they are held back.
    """
    tried, broken, held_back = 0, [], []
    for folder in folders:
        mechanism = load_mechanism(folder)
        member = member_of(mechanism.slug, members)
        held_back += [] if member else [mechanism.slug]
        for n in sorted({*mechanism.says.variants, *variants}):
            tried += 1
            broken += [f"{mechanism.slug} variant {n}: {sentence}" for sentence in _tried(mechanism, n, member)]
    return Trial(tried, tuple(broken), tuple(held_back))


def _tried(mechanism: Mechanism, n: int, member: Member | None) -> list[str]:
    try:
        return try_variant(mechanism, n, member)
    except InvalidValueError as error:
        return [str(error)]
