"""Static checks of the catalogue, quick enough for every save: files, ids, prose, syntax, and checks as data."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.failures.mechanism import Check, Contract, Mechanism, checks_of, load_mechanism, member_of
from shardproof.failures.purity import OURS, PURE, impurities
from shardproof.failures.roles import sources
from shardproof.failures.syntax import misfits, shape_of
from shardproof.failures.values import NOT_FINITE, literal, plain

SAMPLE = (1, 2, 3)
"""Variants that are looked at beside those that a mechanism names."""
LAST = 1000
"""Checks have to work up to here."""
UNFILLED = "FILL IN"
"""What `map new` leaves where an author has to write."""
LARGEST = 2**53 - 1
"""The largest integer that canonical JSON carries."""
FILES = {"mechanism.toml", "failing.py", "unsuccessful.py", "checks.py", "__pycache__"}


def lint_mechanism(folder: Path, members: Path | None) -> list[str]:
    """Name everything static that is wrong with one mechanism's directory, and with its repair where there is one.

    Args:
        folder: the directory with mechanism.toml.
        members: the folder of repairs; None: they are held back.

    Returns:
        Sentences "path: what"; empty when nothing is wrong.
    """
    try:
        mechanism = load_mechanism(folder)
    except InvalidValueError as error:
        return [str(error)]
    numbers = sorted({*SAMPLE, *mechanism.says.variants})
    checks = _lint_checks(folder / "checks.py", mechanism.contract, numbers)
    return [
        *_lint_names(mechanism),
        *_lint_prose(mechanism),
        *_lint_contract(mechanism.contract),
        *_lint_sources(mechanism, members),
        # The held-back checks are held against the visible ones, which have to be right first.
        *(checks or _lint_held_back(mechanism, members)),
    ]


def _lint_names(mechanism: Mechanism) -> list[str]:
    folder, says = mechanism.folder, mechanism.says
    said = []
    if says.slug != folder.name:
        said.append(f"{folder}/mechanism.toml: slug {says.slug!r} is not the folder's name")
    if says.family != folder.parent.name:
        said.append(f"{folder}/mechanism.toml: family {says.family!r} is not the name of the folder above")
    if len(set(says.variants)) != len(says.variants):
        said.append(f"{folder}/mechanism.toml: variants repeat: {list(says.variants)}")
    if beyond := [n for n in says.variants if n > LAST]:
        said.append(f"{folder}/mechanism.toml: variants beyond {LAST}: {beyond}")
    urls = Counter(reference.url for reference in says.references)
    said += [f"{folder}/mechanism.toml: {url} is referenced {times} times" for url, times in urls.items() if times > 1]
    others = sorted(path.name for path in folder.iterdir() if path.name not in FILES)
    return said + [f"{folder}: {name} does not belong here; a repair lies in members/" for name in others]


def _lint_prose(mechanism: Mechanism) -> list[str]:
    fields = mechanism.says.model_dump(exclude={"references", "variants"})
    fields |= {
        f"references.{i}": f"{reference.url} {reference.note}" for i, reference in enumerate(mechanism.says.references)
    }
    path = mechanism.folder / "mechanism.toml"
    unfilled = [name for name, text in fields.items() if UNFILLED in str(text).replace("-", " ")]
    return [f"{path}: {name} is not filled in" for name in unfilled] + [
        f"{path}: {name} holds {unseen}" for name, text in fields.items() for unseen in _unseen(str(text))
    ]


def _unseen(text: str) -> list[str]:
    """Characters that a reader does not see, or that change the order in which they see others."""
    found = {one for one in text if one != "\n" and unicodedata.category(one) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")}
    return [f"U+{ord(one):04X}, which cannot be seen" for one in sorted(found)]


def _lint_contract(contract: Contract) -> list[str]:
    says, path = contract.says, contract.folder / "contract.toml"
    said = [] if says.id == contract.folder.name else [f"{path}: id {says.id!r} is not the folder's name"]
    asked = re.findall(r"\w+", says.solve)[1:]
    if asked != list(says.arguments):
        said.append(f"{path}: arguments {list(says.arguments)} are not those of {says.solve}")
    texts = [says.text, *says.arguments.values()]
    said += [f"{path}: it holds {unseen}" for text in texts for unseen in _unseen(text)]
    if UNFILLED in says.text or any(UNFILLED in text for text in says.arguments.values()):
        said.append(f"{path}: it is not filled in")
    return said + (_lint_lowering(contract.lowering) if contract.lowering else [])


def _lint_lowering(path: Path) -> list[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        return [f"{path}: no Python: {error}"]
    there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return [f"{path}: no function {name}" for name in ("readings", "predicted") if name not in there]


def _lint_sources(mechanism: Mechanism, members: Path | None) -> list[str]:
    said, shapes = [], {}
    for role, path in sources(mechanism, member_of(mechanism.slug, members)).items():
        try:
            text = path.read_bytes().decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            said.append(f"{path}: not readable as ASCII: {error}")
            continue
        problems = misfits(text, mechanism.contract.says.solve)
        problems += ["line ends are not LF"] if "\r" in text else []
        problems += ["it is not filled in"] if UNFILLED in text else []
        said += [f"{path}: {problem}" for problem in problems]
        if not any("no Python" in problem for problem in problems):
            shapes[role] = shape_of(text)
    equal = [pair for pair in combinations(shapes, 2) if shapes[pair[0]] == shapes[pair[1]]]
    return said + [f"{mechanism.folder}: {left} and {right} have the same syntax tree" for left, right in equal]


def _lint_checks(path: Path, contract: Contract, numbers: Sequence[int], fewest: int = 5) -> list[str]:
    try:
        # Before it is run, since it is run here and not isolated.
        if impure := impurities(ast.parse(path.read_bytes()), PURE | OURS):
            return [f"{path}: {problem}" for problem in impure]
    except (OSError, SyntaxError, ValueError) as error:
        return [f"{path}: no Python that can be read: {error}"]
    try:
        variants = {n: checks_of(path, n) for n in numbers}
        again = {n: checks_of(path, n) for n in numbers}
    except InvalidValueError as error:
        return [str(error)]
    said = [f"{path}: {problem}" for n in numbers for problem in _lint_variant(n, variants[n], contract, fewest)]
    if said:
        return said
    said += [f"{path}: checks({n}) differs from call to call" for n in numbers if _text(variants[n]) != _text(again[n])]
    for left, right in combinations(numbers, 2):
        if _text(variants[left]) == _text(variants[right]):
            said.append(f"{path}: variants {left} and {right} have the same checks")
    return said


def _lint_variant(n: int, checks: Sequence[Check], contract: Contract, fewest: int) -> list[str]:
    said = [] if fewest <= len(checks) <= 10 else [f"checks({n}) has {len(checks)} checks, expected {fewest} to 10"]
    for label, times in Counter(check.label for check in checks).items():
        if times > 1:
            said.append(f"checks({n}) has {label!r} {times} times")
        if not re.fullmatch(r"[a-z0-9][ -~]{2,99}", label):
            said.append(f"checks({n}): label {label!r} is not 3 to 100 printable ASCII characters, small at first")
    for check in checks:
        said += [f"checks({n}) {check.label!r}: {problem}" for problem in _lint_values(check, contract)]
    return said


def _lint_values(check: Check, contract: Contract) -> list[str]:
    asked = len(contract.says.arguments)
    given = len(check.arguments)
    said = [] if given == asked else [f"{given} arguments, {contract.says.solve} has {asked}"]
    try:
        for value in (*check.arguments, check.expected):
            literal(value)
            plain(value)
    except TypeError as error:
        return [*said, str(error)]
    for value in _leaves([*check.arguments, check.expected]):
        if isinstance(value, str) and value in NOT_FINITE:
            said.append(f"the string {value!r} is how JSON carries a float; pass the float")
        if isinstance(value, int) and abs(value) > LARGEST:
            said.append(f"the integer {value} is larger than JSON carries exactly; pass a float")
    return said


def _leaves(value: object) -> Iterable[object]:
    if isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _text(checks: Sequence[Check]) -> str:
    return "\n".join(
        f"{check.label}({', '.join(map(literal, check.arguments))}) {literal(check.expected)}" for check in checks
    )


def _lint_held_back(mechanism: Mechanism, members: Path | None) -> list[str]:
    member = member_of(mechanism.slug, members)
    if member is None or member.held_back is None:
        return []
    numbers = sorted({*SAMPLE, *mechanism.says.variants})
    said = _lint_checks(member.held_back, mechanism.contract, numbers, fewest=1)
    if said:
        return said
    for n in numbers:
        visible = {literal([*check.arguments]) for check in checks_of(mechanism.folder / "checks.py", n)}
        for check in checks_of(member.held_back, n):
            if literal([*check.arguments]) in visible:
                said.append(f"{member.held_back}: checks({n}) {check.label!r} is a visible check")
    return said
