"""Planning a case: its programs rendered, its content and digest, before anything is run."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from pathlib import Path

import rfc8785

from shardproof.errors import InvalidValueError
from shardproof.failures.mechanism import Check, Mechanism, Member, checks_from, function_of, member_of
from shardproof.failures.render import calls_of, render, sha256
from shardproof.failures.roles import RULES, WRONG, sources
from shardproof.failures.syntax import Parts, cheats, parts_of, shape_of
from shardproof.failures.values import plain
from shardproof.records.map import (
    CaseContent,
    CheckContent,
    ContractContent,
    Part,
    ProgramContent,
    RoleName,
)


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A mechanism with its files read once: implementations cut for rendering, checks as functions."""

    mechanism: Mechanism
    parts: Mapping[RoleName, Parts]
    """Two where the repair is held back, else three."""
    checks: Callable[[int], tuple[Check, ...]]
    hidden: Callable[[int], tuple[Check, ...]] | None
    """The held-back checks, where there are some."""
    broken: tuple[str, ...]
    """Role rules that the sources alone break."""


@dataclasses.dataclass(frozen=True)
class Program:
    """One program to run, and the checks that it asks."""

    role: RoleName
    part: Part
    source: bytes
    sha256: str
    checks: tuple[Check, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """One case, ready to be run."""

    content: CaseContent
    digest: str
    programs: tuple[Program, ...]
    broken: tuple[str, ...]

    def key(self, level: str) -> str:
        """The digest over all that decides a verification: content, programs, level, interpreter, role rules."""
        here = f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}"
        programs = [f"{program.role} {program.part} {program.sha256}" for program in self.programs]
        return hashlib.sha256("\n".join([self.digest, level, here, f"rules {RULES}", *programs]).encode()).hexdigest()


def load(mechanism: Mechanism, members: Path | None) -> Loaded:
    """Read a mechanism's programs and checks.

    Raises:
        InvalidValueError: a file cannot be read or run.
    """
    member = member_of(mechanism.slug, members)
    texts = {role: _text(path) for role, path in sources(mechanism, member).items()}
    return Loaded(
        mechanism=mechanism,
        parts={role: parts_of(text) for role, text in texts.items()},
        checks=_asking(mechanism.folder / "checks.py"),
        hidden=_hidden(member),
        broken=(*_equal_sources(texts), *_cheating(texts)),
    )


def plan_case(loaded: Loaded, name: str, n: int) -> Plan:
    """Render variant `n` as the case `name`.

    Raises:
        InvalidValueError: a check is not made of plain values, or the implementation is not ASCII.
    """
    visible = loaded.checks(n)
    try:
        calls = calls_of(visible)
        programs = [_program(role, "visible", render(parts, n, calls), visible) for role, parts in loaded.parts.items()]
        if loaded.hidden is not None:
            # Only the repair: that these checks reject the wrong ones is seen by `map lint --roles`.
            hidden = loaded.hidden(n)
            programs.append(
                _program("repair", "held back", render(loaded.parts["repair"], n, calls_of(hidden)), hidden)
            )
        content = _content(loaded.mechanism, name, n, visible, programs)
        repeated = [label for label, times in Counter(check.label for check in visible).items() if times > 1]
        broken = (*loaded.broken, *(f"two checks have the label {label!r}" for label in repeated))
        return Plan(content, case_digest(content), tuple(programs), broken)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValueError(
            f"Expected plain values and ASCII, got {loaded.mechanism.folder}, variant {n}: {error}."
        ) from error


def case_digest(content: CaseContent) -> str:
    """SHA-256 over the content as canonical JSON (RFC 8785): nothing observed, nothing held back."""
    return hashlib.sha256(rfc8785.dumps(content.model_dump(mode="json"))).hexdigest()


def catalogue_digest(plans: Iterable[Plan]) -> str:
    """SHA-256 over the digests of cases, in the order of their ids."""
    lines = sorted(f"{plan.content.id} {plan.digest}\n" for plan in plans)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"Expected an implementation in ASCII, got {path}: {error}.") from error


def _asking(path: Path) -> Callable[[int], tuple[Check, ...]]:
    checks = function_of(path, "checks")
    return lambda n: checks_from(checks, n, path)


def _hidden(member: Member | None) -> Callable[[int], tuple[Check, ...]] | None:
    return _asking(member.held_back) if member is not None and member.held_back is not None else None


def _equal_sources(texts: Mapping[RoleName, str]) -> list[str]:
    said = []
    for left, right in combinations(texts, 2):
        if texts[left] == texts[right]:
            said.append(f"{left} and {right} have the same digest")
        if shape_of(texts[left]) == shape_of(texts[right]):
            said.append(f"{left} and {right} have the same syntax tree")
    return said


def _cheating(texts: Mapping[RoleName, str]) -> list[str]:
    # A program's checks stand in it: one that looks into the interpreter passes them without computing anything.
    return [f"{role} does more than compute: {problem}" for role, text in texts.items() for problem in cheats(text)]


def _program(role: RoleName, part: Part, source: bytes, checks: tuple[Check, ...]) -> Program:
    return Program(role, part, source, sha256(source), checks)


def _content(
    mechanism: Mechanism, name: str, n: int, checks: Iterable[Check], programs: Iterable[Program]
) -> CaseContent:
    says, contract = mechanism.says, mechanism.contract.says
    return CaseContent(
        id=name,
        mechanism=says.slug,
        variant=n,
        title=says.title,
        family=says.family,
        group=says.group,
        contract=ContractContent(**contract.model_dump(exclude={"schema_"})),
        root_cause=says.root_cause,
        unsuccessful_approach=says.unsuccessful_approach,
        why_it_matters=says.why_it_matters,
        scope=says.scope,
        references=says.references,
        checks=tuple(_check_content(check) for check in checks),
        programs=tuple(
            ProgramContent(role=one.role, source=one.source.decode("ascii"), sha256=one.sha256)
            for one in programs
            if one.role in WRONG and one.part == "visible"
        ),
    )


def _check_content(check: Check) -> CheckContent:
    return CheckContent.model_validate(
        {
            "label": check.label,
            "arguments": [plain(argument) for argument in check.arguments],
            "expected": plain(check.expected),
        }
    )
