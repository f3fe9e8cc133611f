"""The leak check: is anything that is held back, under other names or in another form, in what is open?"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from shardproof.errors import InvalidValueError
from shardproof.failures.contents import files_in, views
from shardproof.failures.fragments import bare, canonical, fragments, is_chosen, tokens
from shardproof.failures.mechanism import Check, Mechanism, Member, checks_of, member_of
from shardproof.failures.plan import Plan
from shardproof.failures.values import literal, plain
from shardproof.records.map_share import Leak, LeakRecord

SHORTEST = 12
"""Tokens of a fragment that is looked for; shorter ones are everybody's."""
TELLING = 20
"""Tokens of a fragment that is a leak alone; of shorter ones a file has to hold two of a mechanism."""
SHORTEST_ARGUMENTS = 16
SHORTEST_LABEL = 16
TELLING_LABEL = 40
QUOTED = re.compile(r"""(?<=["'`|>\t\n])([^"'`|<>\t\n]{16,120})(?=["'`|<\t\n])""")
"""Where a label is looked for: quoted, in a cell, or on a line of its own; in prose its words are everybody's."""
What = Literal["repair", "held-back check"]


class NothingHeldBackError(InvalidValueError):
    """The repairs are not here, so that nothing can be looked for."""


@dataclasses.dataclass(frozen=True)
class Fragment:
    """A statement of a held-back file: its canonical tokens, whose it is, and its source."""

    words: tuple[str, ...]
    owners: tuple[tuple[What, str], ...]
    source: str


Starts = Mapping[tuple[str, ...], tuple[Fragment, ...]]


@dataclasses.dataclass(frozen=True)
class Secrets:
    """What is looked for."""

    mechanisms: tuple[str, ...]
    starts: Starts
    """Fragments by their first tokens, all chosen names as one."""
    digests: Mapping[str, str]
    """SHA-256 of a held-back file or program -> its mechanism."""
    arguments: Mapping[str, str]
    """Arguments of a held-back check without white space -> its mechanism."""
    labels: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Seen:
    """What one text holds of the secrets."""

    digests: frozenset[str]
    arguments: frozenset[str]
    labels: frozenset[str]
    hits: tuple[Fragment, ...]


def secrets_of(mechanisms: Sequence[Mechanism], members: Path | None, plans: Iterable[Plan] = ()) -> Secrets:
    """Gather what is held back of mechanisms, less what their open programs hold too.

    Args:
        mechanisms: all of the catalogue.
        members: the folder of repairs.
        plans: cases with their repairs, whose digests are looked for too.

    Raises:
        NothingHeldBackError: no repair is here.
        InvalidValueError: a file cannot be read.
    """
    held = {one.slug: member for one in mechanisms if (member := member_of(one.slug, members)) is not None}
    if not held:
        raise NothingHeldBackError("Expected repairs to look for, got none: members/ is not here.")
    open_texts = [path.read_text(encoding="utf-8") for one in mechanisms for path in _open_files(one)]
    digests = {
        hashlib.sha256(path.read_bytes()).hexdigest(): slug for slug, one in held.items() for path in _files(one)
    }
    for plan in plans:
        digests |= {one.sha256: plan.content.mechanism for one in plan.programs if one.role == "repair"}
    arguments, labels = _checks([one for one in mechanisms if one.slug in held], held)
    everything = "\n".join(open_texts).casefold()
    return Secrets(
        mechanisms=tuple(sorted(held)),
        starts=_less(_starts(held), open_texts),
        digests=digests,
        arguments=arguments,
        labels={folded: slug for label, slug in labels.items() if (folded := label.casefold()) not in everything},
    )


def look_through(paths: Sequence[Path], secrets: Secrets) -> LeakRecord:
    """Look through files and folders, archives included, for anything held back.

    Raises:
        InvalidValueError: a path is not there, or something cannot be read.
    """
    leaks: list[Leak] = []
    count = 0
    known: dict[bytes, Seen] = {}
    for path in paths:
        for name, data in files_in(path):
            count += 1
            leaks += leaks_in(f"{path.name}/{name}" if path.is_dir() else name, data, secrets, known)
    return LeakRecord(mechanisms=len(secrets.mechanisms), files=count, leaks=tuple(leaks))


def leaks_in(name: str, data: bytes, secrets: Secrets, known: dict[bytes, Seen] | None = None) -> list[Leak]:
    """Name what one file's bytes hold of what is held back, each thing once.

    Args:
        name: what the leaks are said to be in.
        data: the file's bytes.
        secrets: what is looked for.
        known: what texts were found to hold, by digest: the same program is in many files.
    """
    known = {} if known is None else known
    seen = [_known(text, secrets, known) for text in views(data)]
    found: dict[tuple[str, str, str], None] = {}
    for one in seen:
        found |= dict.fromkeys(("digest", secrets.digests[text], f"SHA-256 {text[:16]}…") for text in one.digests)
        found |= dict.fromkeys(
            ("held-back check", secrets.arguments[text], f"its arguments {text[:60]}") for text in one.arguments
        )
    found |= dict.fromkeys(_named({label for one in seen for label in one.labels}, secrets.labels))
    found |= dict.fromkeys(_convicted(dict.fromkeys(hit for one in seen for hit in one.hits)))
    return [
        Leak.model_validate({"file": name, "what": what, "mechanism": slug, "detail": detail})
        for what, slug, detail in found
    ]


def _known(text: str, secrets: Secrets, known: dict[bytes, Seen]) -> Seen:
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    if key not in known:
        known[key] = _seen(text, secrets)
    return known[key]


def _seen(text: str, secrets: Secrets) -> Seen:
    packed = _packed(text)
    quoted = {match[1].strip().casefold() for match in QUOTED.finditer(text)}
    hits = dict.fromkeys(hit for words in _token_lists(text) for hit in _hits(words, secrets.starts))
    return Seen(
        digests=frozenset(set(re.findall(r"[0-9a-f]{64}", text.casefold())) & secrets.digests.keys()),
        arguments=frozenset(one for one in secrets.arguments if one in packed),
        labels=frozenset(quoted & secrets.labels.keys()),
        hits=tuple(hits),
    )


def _named(labels: Iterable[str], owners: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    by_owner: dict[str, list[str]] = defaultdict(list)
    for label in sorted(labels):
        by_owner[owners[label]].append(label)
    for slug, found in by_owner.items():
        # One may be chance: the words are few and plain.
        if len(found) > 1 or len(found[0]) >= TELLING_LABEL:
            yield "held-back check", slug, f"its labels {', '.join(map(repr, found))}"


def _convicted(hits: Iterable[Fragment]) -> Iterator[tuple[str, str, str]]:
    by_owner: dict[tuple[What, str], list[Fragment]] = defaultdict(list)
    for hit in hits:
        for owner in hit.owners:
            by_owner[owner].append(hit)
    for (what, slug), found in by_owner.items():
        longest = max(found, key=lambda hit: len(hit.words))
        if len(longest.words) >= TELLING or len(found) > 1:
            line = re.sub(r"\s+", " ", longest.source)
            yield what, slug, f"{len(found)} statements of it under whatever names, as in: {line[:100]}"


def _hits(words: Sequence[str], starts: Starts) -> Iterator[Fragment]:
    shapes = ["$" if is_chosen(word) else word for word in words]
    for at in range(len(words) - SHORTEST + 1):
        for fragment in starts.get(tuple(shapes[at : at + SHORTEST]), ()):
            if canonical(words[at : at + len(fragment.words)]) == fragment.words:
                yield fragment


def _token_lists(text: str) -> Iterator[list[str]]:
    """The tokens as they stand, and again without annotations and needless signs where some of it is Python."""
    yield tokens(text)
    if (whole := _bared(text)) is not None:
        yield whole
        return
    for piece in _functions(text):
        if (words := _bared(piece)) is not None:
            yield words


def _bared(text: str) -> list[str] | None:
    try:
        return tokens(ast.unparse(bare(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _functions(text: str) -> Iterator[str]:
    """Blocks that start with def, dedented: Python inside a document."""
    lines = text.expandtabs().splitlines()
    for at, line in enumerate(lines):
        if re.match(r"\s*(async )?def \w+", line):
            indent = len(line) - len(line.lstrip())
            end = at + 1
            while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
                end += 1
            yield textwrap.dedent("\n".join(lines[at:end]))


def _less(starts: Starts, open_texts: Iterable[str]) -> Starts:
    """The fragments that no open program holds."""
    known = {hit for text in open_texts for words in _token_lists(text) for hit in _hits(words, starts)}
    left = {start: tuple(one for one in found if one not in known) for start, found in starts.items()}
    return {start: found for start, found in left.items() if found}


def _starts(held: Mapping[str, Member]) -> Starts:
    owners: dict[tuple[str, ...], dict[tuple[What, str], None]] = defaultdict(dict)
    source: dict[tuple[str, ...], str] = {}
    for slug, member in held.items():
        for path in _files(member):
            what: What = "repair" if path == member.repair else "held-back check"
            for words, text in _fragments(path).items():
                if len(words) >= SHORTEST:
                    owners[words][(what, slug)] = None
                    source.setdefault(words, text)
    starts: dict[tuple[str, ...], list[Fragment]] = defaultdict(list)
    for words, whose in owners.items():
        start = tuple("$" if word[0] == "$" else word for word in words[:SHORTEST])
        starts[start].append(Fragment(words, tuple(whose), source[words]))
    return {start: tuple(found) for start, found in starts.items()}


def _fragments(path: Path) -> dict[tuple[str, ...], str]:
    try:
        return fragments(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        raise InvalidValueError(f"Expected Python in UTF-8, got {path}: {error}.") from error


def _checks(mechanisms: Sequence[Mechanism], held: Mapping[str, Member]) -> tuple[dict[str, str], dict[str, str]]:
    """Arguments, packed, and labels of the held-back checks of published variants, less those of open checks."""
    hidden: dict[str, str] = {}
    labels: dict[str, str] = {}
    seen: set[str] = set()
    for mechanism in mechanisms:
        for n in mechanism.says.variants:
            for check in checks_of(mechanism.folder / "checks.py", n):
                seen |= _forms(check)
            if (path := held[mechanism.slug].held_back) is None:
                continue
            for check in checks_of(path, n):
                hidden |= dict.fromkeys(_forms(check), mechanism.slug)
                if len(check.label) >= SHORTEST_LABEL:
                    labels[check.label] = mechanism.slug
    return {form: slug for form, slug in hidden.items() if form not in seen}, labels


def _forms(check: Check) -> set[str]:
    """A check's arguments as Python and as JSON write them, without white space, where they are long enough to tell."""
    texts = [literal(list(check.arguments)), json.dumps([plain(argument) for argument in check.arguments])]
    packed = {_packed(text)[1:-1] for text in texts}
    return {text for text in packed if len(text) >= SHORTEST_ARGUMENTS and len(set(re.findall(r"[\d.]+", text))) > 2}


def _packed(text: str) -> str:
    return re.sub(r"\s+", "", text).replace("'", '"')


def _files(member: Member) -> list[Path]:
    return [member.repair] + ([member.held_back] if member.held_back else [])


def _open_files(mechanism: Mechanism) -> list[Path]:
    lowering = mechanism.contract.lowering
    names = ("failing.py", "unsuccessful.py", "checks.py", "mechanism.toml")
    return [mechanism.folder / name for name in names] + ([lowering] if lowering else [])
