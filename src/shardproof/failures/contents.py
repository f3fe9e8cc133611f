"""Everything that can be read in a file: members of archives, strings of JSON, text behind escapes and encodings."""

from __future__ import annotations

import base64
import binascii
import gzip
import html
import io
import json
import re
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from shardproof.errors import InvalidValueError

DEEPEST = 5
"""Archives in archives, and encodings in encodings, are followed this far."""
LARGEST = 256 * 1024 * 1024
RUN = r"[A-Za-z0-9+/_-]"
# Line ends have to stand between the runs: where they may not, matching takes time that grows with the square.
ENCODED = re.compile(rf"{RUN}{{16,}}(?:[ \t]*\r?\n[ \t]*{RUN}{{16,}})*(?:[ \t]*\r?\n[ \t]*{RUN}+)?={{0,2}}")
SHORTEST_ENCODED = 64
SHORT = 200
"""Characters of a string that may be one line of a program."""
MARK = re.compile(r"^[ \t]*(?:(?:#+|//+|>+|\||\*|;+|\d{1,5}[:.|)]?)(?:[ \t]|$)|\+(?!\+))", re.M)
"""What makes a line one of a comment, a quotation, a difference or a numbered listing."""
FEWEST_MARKED = 3
UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
BROKEN = re.compile(r"""(?<!\\)(["'])\s*\+?\s*\1""")
"""Where one string ends and the next begins, with a sign of addition or none."""
ROW = re.compile(r"<td[^<>]*>\s*\d{1,5}\s*</td>", re.I)
ENDS = re.compile(r"<(?:br|/(?:tr|p|li|div|pre|code))[^<>]*>", re.I)
PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2}){8}")
HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2}){64,}")


def files_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file at or below `path` with its bytes; members of archives as `archive!member`.

    Raises:
        InvalidValueError: there is nothing at `path`, a file cannot be read, or an archive is damaged or too large.
    """
    if not path.exists():
        raise InvalidValueError(f"Expected a file or folder to look through, got {path}, which is not there.")
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            name = str(file.relative_to(path)) if path.is_dir() else file.name
            try:
                yield from _opened(name, file.read_bytes(), DEEPEST)
            except (OSError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
                # What cannot be looked into cannot be said to hold nothing.
                raise InvalidValueError(f"Expected files that can be read, got {file}: {error}.") from error


def views(data: bytes) -> Iterator[str]:
    """Yield the texts that a reader could take from some bytes, the plain one first; equal ones once."""
    seen: set[str] = set()
    for found in _views(data, DEEPEST):
        for text in (found, _unmarked(found)):
            if text not in seen:
                seen.add(text)
                yield text


def _unmarked(text: str) -> str:
    """The text without marks at the start of its lines, signs that cannot be seen, and breaks of a string in Python."""
    seen = UNSEEN.sub("", text)
    if len(MARK.findall(seen)) >= FEWEST_MARKED:
        seen = MARK.sub("", seen)
    return BROKEN.sub("", seen)


def _opened(name: str, data: bytes, depth: int) -> Iterator[tuple[str, bytes]]:
    yield name, data
    if not depth:
        raise InvalidValueError(f"Expected archives nested at most {DEEPEST} deep, got {name}.")
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(one.file_size for one in archive.infolist()) > LARGEST:
                raise InvalidValueError(f"Expected archives of at most {LARGEST} bytes, got {name}, which is larger.")
            for one in archive.infolist():
                yield from _opened(f"{name}!{one.filename}", archive.read(one), depth - 1)
    elif data[:2] == b"\x1f\x8b":
        inner = gzip.GzipFile(fileobj=io.BytesIO(data)).read(LARGEST)
        yield from _opened(f"{name}!", inner, depth - 1)
    elif data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for entry in tar:
                if (file := tar.extractfile(entry)) is not None:
                    yield from _opened(f"{name}!{entry.name}", file.read(LARGEST), depth - 1)


def _views(data: bytes, depth: int) -> Iterator[str]:
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = data.decode("utf-16" if wide else "utf-8", "replace")
    yield text
    if "&" in text or "<" in text:
        yield html.unescape(re.sub(r"<[^<>]*>", "", text))
        if ENDS.search(text):
            yield html.unescape(re.sub(r"<[^<>]*>", "", ENDS.sub("\n", ROW.sub("", text))))
        # Markup may be of the text itself: `a < b` and `c > d` are no tag.
        yield html.unescape(text)
    if not depth:
        return
    if PERCENT.search(text):
        yield from _views(urllib.parse.unquote_to_bytes(text), depth - 1)
    strings = _strings(text)
    for inner in strings:
        yield from _views(inner.encode("utf-8", "replace"), depth - 1)
    if "\\" in text and not strings:
        yield _unescaped(text)
        yield html.unescape(re.sub(r"<[^<>]*>", "", _unescaped(text)))
    for packed in _decoded(text):
        yield from _views(packed, depth - 1)


def _strings(text: str) -> list[str]:
    """The strings of a JSON document, or of lines that are each one: long ones alone, short ones as lines of a text."""
    found: list[str] = []
    for piece in [text] if _parses(text, found) else text.splitlines():
        _parses(piece, found)
    found = list(dict.fromkeys(found))
    lines = "\n".join(string for string in found if len(string) < SHORT)
    return [string for string in found if len(string) >= SHORT] + ([lines] if lines else [])


def _parses(text: str, found: list[str]) -> bool:
    if text[:1] not in ("{", "[", '"'):
        return False
    try:
        _gather(json.loads(text), found)
    except (ValueError, RecursionError):
        return False
    return True


def _gather(value: object, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _gather(item, found)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", _character, text)


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "ux" and len(code) > 1:
        return chr(int(code[1:], 16))
    return {"n": "\n", "t": "\t", "r": "\n"}.get(code, code)


def _decoded(text: str) -> Iterator[bytes]:
    for match in HEXADECIMAL.finditer(text):
        yield from _inflated(bytes.fromhex(match[0]))
    for match in ENCODED.finditer(text):
        packed = re.sub(r"\s", "", match[0]).rstrip("=").replace("-", "+").replace("_", "/")
        if len(packed) < SHORTEST_ENCODED:
            continue
        try:
            yield from _inflated(base64.b64decode(packed + "=" * (-len(packed) % 4)))
        except (ValueError, binascii.Error):
            continue


def _inflated(data: bytes) -> Iterator[bytes]:
    yield data
    try:
        # 32: zlib's and gzip's heads are both understood.
        yield zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, LARGEST)
    except zlib.error:
        return
