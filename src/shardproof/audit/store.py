"""A run on disk: plan.json, env.json, observations.jsonl and verdict.json; grading reads only these."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from shardproof.audit.plan_check import wrong_in
from shardproof.errors import InvalidValueError, ShardproofError
from shardproof.records.audit import AuditReport, CellObservation, Environment, Plan, Record, Verdict

PLAN: Final = "plan.json"
ENVIRONMENT: Final = "env.json"
OBSERVATIONS: Final = "observations.jsonl"
VERDICT: Final = "verdict.json"

Kind = TypeVar("Kind", bound=Record)


class StoredRunError(ShardproofError, ValueError):
    """A stored run does not hold together: another schema, a foreign plan, a cell stored twice."""


def begin(folder: Path, plan: Plan, environment: Environment) -> str:
    """Write plan and environment into a new or empty folder; return the plan's SHA-256."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidValueError(f"Expected a new or empty folder for the run, got {folder}. Name another one.")
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    data = _bytes(plan)
    write_whole(folder / ENVIRONMENT, _bytes(environment))
    write_whole(folder / PLAN, data)
    (folder / OBSERVATIONS).touch()
    return hashlib.sha256(data).hexdigest()


def append(folder: Path, observation: CellObservation) -> None:
    """Add one cell's line; on disk when this returns."""
    path = folder / OBSERVATIONS
    with _writable(path), path.open("ab") as stream:
        stream.write(observation.model_dump_json().encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def read_plan(folder: Path) -> tuple[Plan, str]:
    """The plan of a stored run and its SHA-256."""
    data = _stored(folder / PLAN)
    plan = _parsed(Plan, data, folder / PLAN)
    if why := wrong_in(plan):
        raise StoredRunError(f"Expected {folder / PLAN} to hold together, got one in which {why}.")
    return plan, hashlib.sha256(data).hexdigest()


def same_plan(digest: str, wanted: str | None) -> None:
    """Raise StoredRunError where a plan does not have the digest that is asked for; None asks for none."""
    if wanted is not None and digest != wanted:
        raise StoredRunError(f"Expected the plan {wanted}, got {digest}: another one than was written.")


def read_observations(folder: Path, plan: Plan, plan_sha256: str) -> tuple[tuple[CellObservation, ...], list[str]]:
    """The stored observations, and what is to be said about how they were found.

    A last line without its newline is what a killed harness leaves: it is left out, and said. Raises
    StoredRunError for anything else that does not fit.
    """
    *lines, rest = _stored(folder / OBSERVATIONS).split(b"\n")
    notes = ["the last line of the observations is cut off and was left out"] if rest else []
    observations = [_parsed(CellObservation, line, folder / OBSERVATIONS) for line in lines]
    cells = {cell.id for cell in plan.cells}
    found: set[tuple[str, int]] = set()
    for place, observation in enumerate(observations, start=1):
        if observation.plan_sha256 != plan_sha256:
            raise StoredRunError(f"Expected observations of this plan, got another one's in line {place}.")
        this = (observation.cell, observation.repeat)
        if observation.cell not in cells or this in found:
            raise StoredRunError(f"Expected a planned cell once, got {observation.cell!r} in line {place}.")
        found.add(this)
    return tuple(observations), notes


def drop_cut_line(folder: Path) -> None:
    """Remove a last line without its newline, which a killed harness leaves, so that lines can be added again."""
    data = _stored(folder / OBSERVATIONS)
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        write_whole(folder / OBSERVATIONS, whole)


def write_verdict(folder: Path, verdict: Verdict) -> None:
    """Write the verdict, whole."""
    write_whole(folder / VERDICT, _bytes(verdict))


def read_report(folder: Path) -> AuditReport:
    """Plan, environment and verdict of a graded run, for rendering."""
    plan, digest = read_plan(folder)
    verdict = _parsed(Verdict, _stored(folder / VERDICT), folder / VERDICT)
    if verdict.plan_sha256 != digest:
        raise StoredRunError(f"Expected a verdict on this plan, got another one's in {folder / VERDICT}. Grade again.")
    environment = _parsed(Environment, _stored(folder / ENVIRONMENT), folder / ENVIRONMENT)
    return AuditReport(plan=plan, environment=environment, verdict=verdict)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file by these bytes; a reader sees the old file or the new one, never a part."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with _writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(path)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a run's folder while cells are added to it; raises InvalidValueError where another process does so."""
    if not (folder / PLAN).is_file():
        raise InvalidValueError(f"Expected a stored run with {PLAN}, got {folder}, which has none.")
    with (folder / PLAN).open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidValueError(
                f"Expected a run that nobody else is running, got {folder}, to which another process adds cells. "
                "Wait for it."
            ) from error
        yield


@contextlib.contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Turn what the system says about a file that cannot be written into an error that names it."""
    try:
        yield
    except OSError as error:
        raise InvalidValueError(f"Expected a file that can be written, got {path}: {error.strerror}.") from error


def _bytes(record: Record) -> bytes:
    return record.model_dump_json(indent=1).encode() + b"\n"


def _stored(path: Path) -> bytes:
    if not path.is_file():
        raise InvalidValueError(f"Expected a stored run with {path.name}, got {path.parent}, which has none.")
    return path.read_bytes()


def _parsed(kind: type[Kind], data: bytes, path: Path) -> Kind:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoredRunError(
            f"Expected {path} to hold records of this version, got {first['msg']} at {where or 'the top'}."
        ) from error
