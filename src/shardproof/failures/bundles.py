"""Bundles: what is open of a case as one zip file, the same bytes on every build, with SHA256SUMS inside."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping

import rfc8785

from shardproof.failures.plan import Plan
from shardproof.failures.roles import WRONG

SUMS = "SHA256SUMS"
README = """Case {id}: {title}

case.json        what the case says, as canonical JSON (RFC 8785); its SHA-256 is the case digest
                 {digest}
failing.py       the program that breaks the contract; it exits 1
unsuccessful.py  the fix that does not mend it; it exits 1
SHA256SUMS       check with: sha256sum --check SHA256SUMS

The repair is held back, for every case of the mechanism {mechanism} and of its evaluation group {group}.
Keep that group on one side of any split into train and test.
"""


def case_bundle(plan: Plan, group: str) -> bytes:
    """Return the zip file of a case: its content, its two wrong programs, and their sums.

    Args:
        plan: the planned case; a repair that it may have is left out.
        group: the id of its evaluation group.
    """
    content = plan.content
    text = README.format(
        id=content.id, title=content.title, digest=plan.digest, mechanism=content.mechanism, group=group
    )
    programs = {f"{one.role}.py": one.source.encode("ascii") for one in content.programs if one.role in WRONG}
    return archive({"README.txt": text.encode(), "case.json": case_json(plan), **programs})


def case_json(plan: Plan) -> bytes:
    """Return the case's content as canonical JSON; the SHA-256 of these bytes is the case digest."""
    return rfc8785.dumps(plan.content.model_dump(mode="json"))


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a zip file of some files and their SHA256SUMS; a function of names and bytes alone.

    >>> archive({"a": b"1"}) == archive({"a": b"1"})
    True
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipped:
        for name, data in sorted({**files, SUMS: sums(files)}.items()):
            # Stored, since what deflate gives differs between zlibs; and everything that zipfile would take from
            # the clock, the system or the environment is set.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_STORED, 3, 0o100644 << 16
            zipped.writestr(info, data)
    return packed.getvalue()


def sums(files: Mapping[str, bytes]) -> bytes:
    """Return the lines that `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())).encode()


def file_name(name: str) -> str:
    """Return a case's id as a file's name.

    >>> file_name("local-shard-clip/17")
    'local-shard-clip-17'
    """
    return name.replace("/", "-")
