"""Writing a shrunk failure as a new mechanism of the map, around the wrong implementation that explains it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from shardproof.audit.agreement import agrees, departs, seen_in, wanted
from shardproof.audit.lowering import cell_of, padding_counted
from shardproof.audit.store import write_whole
from shardproof.errors import InvalidValueError
from shardproof.failures import Lowered, lowered
from shardproof.failures.axes import exponent
from shardproof.failures.lint import lint_mechanism
from shardproof.failures.lowering import Cell, answer
from shardproof.failures.mechanism import CATALOGUE, CONTRACTS, function_of, member_of, members_folder
from shardproof.failures.scaffold import scaffold
from shardproof.records.audit import CellObservation, Diagnosis, FixturePlan, Named
from shardproof.records.shrunk import Shrunk

FIXTURE: Final = "fixture.json"
PADDED: Final = "; padding counts"
FEWEST: Final = 5
"""Checks that a mechanism needs."""


@dataclass(frozen=True)
class Saved:
    """What was written, by whose program, and what a person has to write; implementation is None without a program."""

    files: tuple[Path, ...]
    implementation: Named | None
    left: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """An implementation of the map that shows on the shrunk case what the subject did, and how it was asked."""

    named: Named
    entry: Lowered

    def asked(self, shrunk: Shrunk, call: FixturePlan) -> tuple[Cell, tuple[Any, ...]] | None:
        """The cell and the arguments of solve for a call on the shrunk layout; None where that reading is not there."""
        cell = cell_of(shrunk.layout, call)
        if self.named.reading.endswith(PADDED):
            cell = padding_counted(cell)
        arguments = self.entry.readings(cell).get(self.named.reading.removesuffix(PADDED))
        return None if arguments is None else (cell, arguments)


def save_case(shrunk: Shrunk, diagnoses: Sequence[Diagnosis], folder: Path) -> Saved:
    """Write the shrunk failure into a new folder FAMILY/SLUG of a catalogue, whose contracts lie beside the families.

    Args:
        shrunk: the failure.
        diagnoses: of the run; the first candidate that shows the shrunk failure lends its program and contract.
        folder: named family/slug; it is made.

    Returns:
        The files; where no implementation of the map explains the failure, its numbers only: a table of what was seen
        is no implementation.

    Raises:
        InvalidValueError: the folder exists, or its names do not fit.
    """
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()):
        raise InvalidValueError(f"Expected a new folder for the case, got {folder}. Name another one: FAMILY/SLUG.")
    explained = next(explanations(shrunk, diagnoses), None)
    if explained is None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FIXTURE, shrunk.model_dump_json(indent=1).encode() + b"\n")
        left = (
            "no implementation of the map shows this failure, so that no program can be written from it: "
            f"{FIXTURE} holds its numbers; `shardproof map new` starts a mechanism for a program of your own",
        )
        return Saved((folder / FIXTURE,), None, left)
    _lend_contract(explained.entry.contract, folder.parents[1])
    files = scaffold(
        folder.name, folder.parent.name, explained.entry.contract, catalogue=folder.parents[1], members=None
    )
    texts = {"failing.py": _program(explained.named), "checks.py": checks_text(shrunk, explained)}
    for name, text in texts.items():
        if text is not None:
            write_whole(folder / name, text.encode())
    return Saved(tuple(files), explained.named, tuple(lint_mechanism(folder, None)))


def explanations(shrunk: Shrunk, diagnoses: Sequence[Diagnosis]) -> Iterator[Explained]:
    """The implementations of the diagnosis, in its order, that show on the shrunk call what the subject did."""
    (call,) = shrunk.layout.fixtures
    observation = CellObservation(
        plan_sha256=shrunk.plan_sha256,
        cell=shrunk.cell,
        status="ran",
        note=None,
        started="",
        seconds=0.0,
        ranks=shrunk.observation,
    )
    seen = seen_in(shrunk.layout, call, observation)
    right, norm_tolerance, element_tolerance = wanted(shrunk.layout, call)
    entries = {(entry.slug, entry.role): entry for entry in lowered()}
    for named in _named(shrunk, diagnoses):
        explained = Explained(named, entries[named.mechanism, named.implementation])
        asked = explained.asked(shrunk, call)
        if seen is None or asked is None:
            continue
        cell, arguments = asked
        told = explained.entry.predicted(cell, answer(explained.entry.solve, arguments))
        if agrees(seen, told, norm_tolerance, element_tolerance) and departs(
            told, right, norm_tolerance, element_tolerance
        ):
            yield explained


def checks_text(shrunk: Shrunk, explained: Explained) -> str | None:
    """The text of checks.py: the shrunk call and calls beside it, times 1 + n % 97; None where one is not rational.

    What is expected comes from the exact rule for a contract of plain shards; for another one from the repair, where
    it is not held back, and only if the contract's lowering reads the exact rule's result out of it.
    """
    entries = [_check(label, shrunk, explained, call) for label, call in _calls(shrunk)]
    written = [entry for entry in entries if entry is not None]
    if len(written) < FEWEST:
        return None
    return (
        f'"""The shrunk failure of {shrunk.subject.name} under {shrunk.layout.name}, and calls beside it."""\n\n'
        "from shardproof.failures.exact import scaled\n\n\n"
        "def checks(n):\n    k = 1 + n % 97\n    return [\n" + "".join(written) + "    ]\n"
    )


def _named(shrunk: Shrunk, diagnoses: Sequence[Diagnosis]) -> Iterator[Named]:
    for diagnosis in diagnoses:
        if diagnosis.subject == shrunk.subject.name:
            for candidate in diagnosis.candidates:
                yield from (together[0] for together in candidate.together if len(together) == 1)


def _lend_contract(contract: str, catalogue: Path) -> None:
    there = catalogue / CONTRACTS / contract
    if not there.exists():
        shutil.copytree(CATALOGUE / CONTRACTS / contract, there, ignore=shutil.ignore_patterns("__pycache__"))


def _program(named: Named) -> str:
    (path,) = CATALOGUE.glob(f"*/{named.mechanism}/{named.implementation}.py")
    return path.read_text(encoding="utf-8")


def _calls(shrunk: Shrunk) -> Iterator[tuple[str, FixturePlan]]:
    (call,) = shrunk.layout.fixtures
    norm = shrunk.norm
    yield "the call that fails", call
    for label, limit in (
        ("limit is a quarter of the norm", norm / 4),
        ("limit is the norm", norm),
        ("limit is twice the norm", 2 * norm),
        ("limit is zero", 0.0),
    ):
        yield label, call.model_copy(update={"limit": limit})
    zeros = {name: (0.0,) * len(row) for name, row in call.gradients.items()}
    yield "zero gradient", call.model_copy(update={"gradients": zeros, "limit": 1.0})


def _check(label: str, shrunk: Shrunk, explained: Explained, call: FixturePlan) -> str | None:
    """One entry of the list of checks; None where it cannot be asked or its numbers are no small fractions."""
    tripled = call.model_copy(
        update={
            "limit": 3 * call.limit,
            "gradients": {name: tuple(3 * value for value in row) for name, row in call.gradients.items()},
        }
    )
    asked, more = explained.asked(shrunk, call), explained.asked(shrunk, tripled)
    if asked is None or more is None or not all(map(math.isfinite, (call.limit, shrunk.norm))):
        return None
    right = _right(shrunk, explained, call, asked)
    again = _right(shrunk, explained, tripled, more)
    if right is None or again is None:
        return None
    units = 2.0 ** exponent(asked[0]), 2.0 ** exponent(more[0])
    texts = [_text(one, other, units) for one, other in ((asked[1], more[1]), (right, again))]
    if None in texts:
        return None
    return f'        (\n            "{label}",\n            {texts[0]},\n            {texts[1]},\n        ),\n'


def _right(shrunk: Shrunk, explained: Explained, call: FixturePlan, asked: tuple[Cell, tuple[Any, ...]]) -> Any:
    cell, arguments = asked
    if explained.entry.contract == "clip-shards":
        from shardproof.clip import clip_shards

        return clip_shards(*arguments)
    member = member_of(explained.named.mechanism, members_folder())
    if member is None:
        return None
    solve: Callable[..., Any] = function_of(member.repair, "solve")
    result = answer(solve, arguments)
    right, norm_tolerance, element_tolerance = wanted(shrunk.layout, call)
    told = explained.entry.predicted(cell, result)
    return result if agrees(right, told, norm_tolerance, element_tolerance) else None


def _text(one: Any, other: Any, units: tuple[float, float]) -> str | None:
    """The value as an expression of k. A number that is three times itself in the tripled call is a multiple of k."""
    if isinstance(one, dict):
        texts = {key: _text(one[key], other[key], units) for key in one}
        return None if None in texts.values() else f"{{{', '.join(f'{key!r}: {text}' for key, text in texts.items())}}}"
    if isinstance(one, list | tuple):
        listed = [_text(a, b, units) for a, b in zip(one, other, strict=True)]
        if None in listed:
            return None
        inner = ", ".join(str(each) for each in listed)
        return f"[{inner}]" if isinstance(one, list) else f"({inner}{',' if len(listed) == 1 else ''})"
    if isinstance(one, float) or (isinstance(one, int) and not isinstance(one, bool) and one != other):
        return _number(one / units[0], other / units[1])
    return repr(one)


def _number(one: float, other: float) -> str | None:
    fraction = Fraction(one).limit_denominator(1000)
    if abs(float(fraction) - one) > 1e-11 or abs(other - 3 * one) > 1e-9 * abs(one):
        return repr(one) if one == other else None
    if not one:
        return "0"
    times = "k" if fraction.numerator == 1 else f"{fraction.numerator} * k"
    return times if fraction.denominator == 1 else f"scaled([{times}], 1, {fraction.denominator})[0]"
