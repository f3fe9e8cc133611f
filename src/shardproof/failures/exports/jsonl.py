"""Cases as JSON: one canonical file each, or one line each of a single file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from shardproof.failures.bundles import SUMS, case_bundle, case_json, file_name, sums
from shardproof.failures.folders import File
from shardproof.failures.plan import Plan
from shardproof.records.map_share import ExportedCase


def json_files(plans: Iterable[Plan]) -> Iterator[File]:
    """A file for each case, canonical (RFC 8785), whose SHA-256 is the case digest; SHA256SUMS last."""
    files = {f"{file_name(plan.content.id)}.json": case_json(plan) for plan in plans}
    yield from files.items()
    yield SUMS, sums(files)


def bundle_files(plans: Iterable[Plan], groups: Mapping[str, str]) -> Iterator[File]:
    """A reproducible zip file for each case; SHA256SUMS last.

    Args:
        plans: the cases.
        groups: the evaluation group of each mechanism.
    """
    made = {f"{file_name(plan.content.id)}.zip": case_bundle(plan, groups[plan.content.mechanism]) for plan in plans}
    yield from made.items()
    yield SUMS, sums(made)


def jsonl_files(plans: Iterable[Plan], groups: Mapping[str, str]) -> Iterator[File]:
    """cases.jsonl: a line for each case with its digest and evaluation group.

    Args:
        plans: the cases.
        groups: the evaluation group of each mechanism.
    """
    lines = [
        ExportedCase(digest=plan.digest, evaluation_group=groups[plan.content.mechanism], case=plan.content)
        for plan in plans
    ]
    yield "cases.jsonl", "".join(f"{_line(one)}\n" for one in lines).encode("ascii")


def _line(case: ExportedCase) -> str:
    return json.dumps(case.model_dump(mode="json"), allow_nan=False, separators=(",", ":"))
