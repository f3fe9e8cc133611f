"""The program around a candidate: it hands over arguments and passes values back; it knows no expected value."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from shardproof.failures.mechanism import Check
from shardproof.failures.purity import PURE
from shardproof.failures.values import literal

IMPORTABLE = tuple(sorted(PURE | {"__future__", "abc", "contextlib", "json", "random", "re", "string"}))
"""Modules that a candidate can import; they are loaded before it starts, since it can open no file."""
READY = {"ready": True}

# The limits hold in the kernel: with no file descriptor to be had, nothing can be opened, listed or connected to, by
# whatever way round Python; what the interpreter would have to read is read before. Answers leave by a copy of
# standard output that was made before; what the candidate prints goes to standard error.
DRIVER = """
def plain(value):
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        return str(float(value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    raise TypeError("not a plain value")


def write(document):
    rest = (json.dumps(document, allow_nan=False) + "\\n").encode()
    while rest:
        rest = rest[os.write(CHANNEL, rest):]


CHANNEL = os.dup(1)
os.dup2(2, 1)
"x".encode("utf-8"), "x".encode("ascii"), compile("1", "warm", "exec")
for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):
    resource.setrlimit(kind, (0, 0))
write({"ready": True})
try:
    space = {"__name__": "candidate", "__builtins__": __builtins__}
    exec(compile(SOURCE, "candidate.py", "exec"), space)
    solve = space["solve"]
except Exception as error:
    write({"module": type(error).__name__, "said": str(error)[:200]})
    raise SystemExit(1)
for index, arguments in enumerate(ASKED):
    try:
        write({"check": index, "value": plain(solve(*arguments))})
    except Exception as error:
        write({"check": index, "raises": type(error).__name__})
"""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What solve did with the arguments of one check: it returned a value, or raised."""

    value: object
    raises: str | None


@dataclasses.dataclass(frozen=True)
class Heard:
    """What came over the channel: an answer or None for each check, and what was wrong."""

    ready: bool
    """The limits were in force before the candidate started."""
    answers: tuple[Answer | None, ...]
    problems: tuple[str, ...]


def program(candidate: bytes, checks: Sequence[Check]) -> bytes:
    """Return the program to run: the candidate and the arguments of the checks, no label and no expected value."""
    imports = "".join(f"import {name}\n" for name in IMPORTABLE if name != "__future__")
    asked = "".join(f"    ({''.join(f'{literal(argument)}, ' for argument in check.arguments)}),\n" for check in checks)
    head = f"import os, resource\n{imports}\nSOURCE = {candidate!r}\nASKED = [\n{asked}]\n"
    return (head + DRIVER).encode("ascii")


def heard(stdout: bytes, asked: int) -> Heard:
    """Read the channel: one line for each check, in order; whatever else a candidate wrote there is a problem.

    Args:
        stdout: what the program wrote to standard output.
        asked: how many checks it was asked.
    """
    documents, problems = _documents(stdout)
    ready = documents[:1] == [READY]
    answers: list[Answer | None] = [None] * asked
    for place, document in enumerate(documents[1:] if ready else documents):
        if isinstance(document, dict) and set(document) == {"module", "said"}:
            problems.append(f"its module raises {str(document['module'])[:80]}: {str(document['said'])[:200]}")
            continue
        answer = _answer(document, place)
        if answer is None or place >= asked:
            problems.append("something else than the answers, in their order, came over the channel")
            return Heard(ready, (None,) * asked, tuple(problems))
        answers[place] = answer
    if None in answers:
        problems.append(f"{answers.count(None)} of {asked} checks got no answer")
    return Heard(ready, tuple(answers), tuple(problems))


def _documents(stdout: bytes) -> tuple[list[object], list[str]]:
    found: list[object] = []
    for line in stdout.splitlines():
        try:
            found.append(json.loads(line.decode("utf-8"), parse_constant=_refused, object_pairs_hook=_once))
        except (ValueError, RecursionError):
            return found, ["a line that is no JSON, or nests too deep, came over the channel"]
    return found, []


def _answer(document: object, place: int) -> Answer | None:
    if not isinstance(document, dict) or document.get("check") != place or isinstance(document["check"], bool):
        return None
    if set(document) == {"check", "value"}:
        return Answer(document["value"], None)
    if set(document) == {"check", "raises"} and isinstance(document["raises"], str):
        return Answer(None, document["raises"])
    return None


def _refused(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key is repeated")
    return document
