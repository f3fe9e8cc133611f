"""The open tier and the member tier: what each of them holds of a case, and how the folders are published."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from shardproof.errors import InvalidValueError
from shardproof.failures.bundles import archive, case_bundle, file_name
from shardproof.failures.folders import File, write_folder
from shardproof.failures.kept import ResultsError, read_results
from shardproof.failures.leaks import Secrets, look_through
from shardproof.failures.plan import Plan, Program, catalogue_digest
from shardproof.failures.values import plain
from shardproof.records.map import CaseResult, CheckContent, ProgramContent
from shardproof.records.map_share import (
    GroupsRecord,
    HeldBackProgram,
    LeakRecord,
    MemberCase,
    OpenCase,
    OpenObservation,
    TierRecord,
)

TIER = "tier.json"
ENCRYPTED = "members.zip.age"


class LeakError(InvalidValueError):
    """What was to be published holds something that is held back; nothing was written."""

    def __init__(self, record: LeakRecord) -> None:
        super().__init__(f"Expected nothing held back in open output, got {len(record.leaks)} leaks.")
        self.record = record


def publish_open(
    out: Path,
    plans: Sequence[Plan],
    groups: GroupsRecord,
    secrets: Secrets,
    *,
    results: Mapping[str, CaseResult] | None = None,
    wheels: Sequence[Path] = (),
) -> LeakRecord:
    """Write the open tier: each case with its failure, unsuccessful fix, contract and visible checks, and its bundle.

    Args:
        out: a folder that does not exist or is empty.
        plans: the cases.
        groups: the evaluation groups, in which repairs are held back together.
        secrets: what is looked for in all that was written.
        results: by id, for the observations of the two programs.
        wheels: files that are looked through too, and not written.

    Returns:
        The leak check, which found nothing.

    Raises:
        LeakError: something held back was found; nothing is written.
        InvalidValueError: `out` holds something.
        ResultsError: a result is of another case digest.
    """
    of = group_by_mechanism(groups)
    found: list[LeakRecord] = []

    def approve(folder: Path) -> None:
        found.append(look_through([folder, *wheels], secrets))
        if found[0].leaks:
            raise LeakError(found[0])

    write_folder(out, _with_tier("open", plans, groups, _open_files(plans, of, results or {})), approve)
    return found[0]


def publish_member(
    out: Path,
    plans: Sequence[Plan],
    groups: GroupsRecord,
    *,
    results: Mapping[str, CaseResult] | None = None,
    recipients: Sequence[str] = (),
) -> int:
    """Write the member tier: each case's repair with its observations and held-back checks; encrypted where asked.

    Args:
        out: a folder that does not exist or is empty.
        plans: the cases, with their repairs.
        groups: the evaluation groups.
        results: by id, for the observations of the repairs.
        recipients: age recipients; with some, the folder holds one encrypted file, and nothing else reaches the disk.

    Returns:
        The number of files.

    Raises:
        InvalidValueError: a case has no repair here, a recipient is none, or pyrage is not installed.
        ResultsError: a result is of another case digest.
    """
    of = group_by_mechanism(groups)
    files = _with_tier("member", plans, groups, _member_files(plans, of, results or {}))
    if recipients:
        return write_folder(out, [(ENCRYPTED, encrypted(archive(dict(files)), recipients))], private=True)
    return write_folder(out, files, private=True)


def encrypted(data: bytes, recipients: Sequence[str]) -> bytes:
    """Encrypt to age recipients (age1... or an SSH public key).

    Raises:
        InvalidValueError: pyrage is not installed, or a recipient is none.
    """
    try:
        pyrage: Any = importlib.import_module("pyrage")
    except ImportError:
        raise InvalidValueError(
            "Expected pyrage to encrypt to age recipients, got none: it is not installed. Install shardproof[age], or "
            "publish the member tier without --recipient into a folder that only you can read."
        ) from None
    kinds = [(pyrage.ssh if text.startswith("ssh-") else pyrage.x25519).Recipient.from_str for text in recipients]
    try:
        sealed: bytes = pyrage.encrypt(data, [kind(text) for kind, text in zip(kinds, recipients, strict=True)])
    except pyrage.RecipientError as error:
        raise InvalidValueError(f"Expected age recipients, got {', '.join(recipients)}: {error}.") from None
    return sealed


def results_of(path: Path, plans: Iterable[Plan]) -> dict[str, CaseResult]:
    """Read the results of a verification and hold them against the cases.

    Raises:
        ResultsError: a line does not fit, or a result is of another digest or did not hold.
        InvalidValueError: the file cannot be read.
    """
    try:
        found = {result.id: result for result in read_results(path)}
    except OSError as error:
        raise InvalidValueError(f"Expected results of `map verify --out`, got {path}: {error.strerror}.") from error
    chosen = {}
    for plan in plans:
        result = found.get(plan.content.id)
        if result is None:
            continue
        if result.case_digest != plan.digest or result.verdict != "held":
            raise ResultsError(
                f"Expected a result of {plan.content.id} as it is now that held, got digest {result.case_digest[:16]} "
                f"and verdict {result.verdict}; verify it again."
            )
        chosen[plan.content.id] = result
    return chosen


def group_by_mechanism(groups: GroupsRecord) -> dict[str, str]:
    """The id of each mechanism's evaluation group."""
    return {slug: group.id for group in groups.groups for slug in group.mechanisms}


def open_case(plan: Plan, group: str, result: CaseResult | None) -> OpenCase:
    """What is open of one case; of a result only what its two wrong programs did."""
    shown = [] if result is None else [one for one in result.programs if one.role != "repair" and one.part == "visible"]
    return OpenCase(
        digest=plan.digest,
        evaluation_group=group,
        content=plan.content,
        observations=tuple(
            OpenObservation.model_validate(
                {
                    "role": one.role,
                    "sha256": one.sha256,
                    "exit_code": one.exit_code,
                    "observations": one.observations,
                    "python": result.python,
                    "platform": result.platform,
                    "time": result.time,
                }
            )
            for one in shown
            if result is not None
        ),
    )


def member_case(plan: Plan, group: str, result: CaseResult | None) -> MemberCase:
    """What is held back of one case.

    Raises:
        InvalidValueError: its repair is not here.
    """
    repairs = {one.part: one for one in plan.programs if one.role == "repair"}
    if "visible" not in repairs:
        raise InvalidValueError(f"Expected the repair of {plan.content.mechanism}, got none: members/ is not here.")
    hidden = repairs.get("held back")
    seen = [] if result is None else [one for one in result.programs if one.role == "repair" and one.part == "visible"]
    return MemberCase(
        id=plan.content.id,
        digest=plan.digest,
        mechanism=plan.content.mechanism,
        variant=plan.content.variant,
        evaluation_group=group,
        repair=_program(repairs["visible"]),
        held_back=None if hidden is None else HeldBackProgram(program=_program(hidden), checks=_checks(hidden)),
        repair_observations=seen[0].observations if seen else (),
    )


def _open_files(plans: Iterable[Plan], of: Mapping[str, str], results: Mapping[str, CaseResult]) -> Iterator[File]:
    for plan in plans:
        name, group = plan.content.id, of[plan.content.mechanism]
        yield f"cases/{file_name(name)}.json", _text(open_case(plan, group, results.get(name)))
        yield f"bundles/{file_name(name)}.zip", case_bundle(plan, group)


def _member_files(plans: Iterable[Plan], of: Mapping[str, str], results: Mapping[str, CaseResult]) -> Iterator[File]:
    for plan in plans:
        name = plan.content.id
        record = member_case(plan, of[plan.content.mechanism], results.get(name))
        yield f"cases/{file_name(name)}.json", _text(record)
        yield f"repairs/{file_name(name)}.py", record.repair.source.encode("ascii")


def _with_tier(tier: str, plans: Sequence[Plan], groups: GroupsRecord, files: Iterable[File]) -> Iterator[File]:
    """The files, and last the record of the tier with their digests."""
    digests = {}
    for name, data in files:
        digests[name] = hashlib.sha256(data).hexdigest()
        yield name, data
    here = {plan.content.mechanism for plan in plans}
    held = {group.id: group.mechanisms for group in groups.groups if here & set(group.mechanisms)}
    record = TierRecord.model_validate(
        {
            "tier": tier,
            "catalogue_digest": catalogue_digest(plans),
            "cases": tuple(plan.content.id for plan in plans),
            "held_back": held if tier == "open" else {},
            "files": digests,
        }
    )
    yield TIER, _text(record)


def _text(record: BaseModel) -> bytes:
    return (json.dumps(record.model_dump(mode="json"), indent=2, allow_nan=False) + "\n").encode("ascii")


def _program(program: Program) -> ProgramContent:
    return ProgramContent(role=program.role, source=program.source.decode("ascii"), sha256=program.sha256)


def _checks(program: Program) -> tuple[CheckContent, ...]:
    return tuple(
        CheckContent.model_validate(
            {"label": one.label, "arguments": [plain(a) for a in one.arguments], "expected": plain(one.expected)}
        )
        for one in program.checks
    )
