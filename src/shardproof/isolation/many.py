"""Many small programs that are not trusted: forked from warm interpreters, a window of them at a time."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

from shardproof.isolation.limits import Limits
from shardproof.isolation.run import (
    MARKER,
    PATIENCE_S,
    Run,
    how_it_ended,
    plan_of,
    require,
    run_isolated,
)
from shardproof.isolation.sweep import kill_marked
from shardproof.isolation.users import needs_user, own_users
from shardproof.isolation.verdict import record_of
from shardproof.isolation.warden import remove_tree
from shardproof.records.isolation import Level

Key = TypeVar("Key")
ANSWER_S = 5.0
"""How long a nursery may take to say how a supervisor ended that is gone already."""
LEAVE_S = 30.0
"""How long nurseries may take to kill what runs and to leave, when no more is wanted."""
TRIES = 2
LOST = "the interpreter that it was forked from was lost"


@dataclasses.dataclass
class _Nursery:
    process: subprocess.Popen[bytes]
    door: socket.socket
    marker: str
    sent: int = 0
    """Programs that it was given."""


@dataclasses.dataclass
class _Birth(Generic[Key]):
    """A program on its way: where it runs, what came of its report, until when it may take."""

    key: Key
    source: bytes
    base: Path
    report: int
    deadline: float
    said: bytearray
    tries: int


@dataclasses.dataclass
class _Seat(Generic[Key]):
    nursery: _Nursery | None = None
    birth: _Birth[Key] | None = None


def run_many(
    programs: Iterable[tuple[Key, bytes]],
    *,
    level: Level = "process",
    jobs: int = 1,
    limits: Limits | None = None,
    apart: bool = False,
) -> Iterator[tuple[Key, Run]]:
    """Run many programs, `jobs` at a time, and yield each run as it ends, with the key of its program.

    At level `process` on Linux each is forked from a warm interpreter, in a process tree and folder of its own and
    under a supervisor of its own, with the verdicts of `run_isolated`; what is shared stands in its record. At other
    levels each is run by `run_isolated`. Programs are taken as room is free, so memory does not grow with their number.

    Args:
        programs: a key that says which one it is, and the exact bytes to run.
        level: how they are held.
        jobs: programs that run at the same time.
        limits: what each may use.
        apart: start an interpreter for each program after all, so that each has a hash seed of its own; eight times
            the cost.

    Yields:
        Each key once. Where an interpreter that programs are forked from is lost, its program is run once more; lost
        again it has ended as `supervisor lost`.

    Raises:
        IsolationUnavailableError: the level cannot be had on this system; nothing was run.

    >>> [(key, run.stdout) for key, run in run_many([("answer", b"print(6 * 7)")])]
    [('answer', b'42\\n')]
    """
    require(level)
    limits = limits or Limits()
    if level == "process" and not apart and sys.platform.startswith("linux"):
        yield from _forked(iter(programs), jobs, limits)
    else:
        yield from _started(programs, level, jobs, limits)


def _started(
    programs: Iterable[tuple[Key, bytes]], level: Level, jobs: int, limits: Limits
) -> Iterator[tuple[Key, Run]]:
    pool = ThreadPoolExecutor(jobs)
    waiting: dict[Future[Run], Key] = {}
    try:
        for key, source in programs:
            waiting[pool.submit(run_isolated, source, level=level, limits=limits)] = key
            if len(waiting) >= 2 * jobs:
                yield from _ended(waiting)
        while waiting:
            yield from _ended(waiting)
    finally:
        pool.shutdown(cancel_futures=True)


def _ended(waiting: dict[Future[Run], Key]) -> Iterator[tuple[Key, Run]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()


def _forked(programs: Iterator[tuple[Key, bytes]], jobs: int, limits: Limits) -> Iterator[tuple[Key, Run]]:
    seats: list[_Seat[Key]] = [_Seat() for _ in range(jobs)]
    users = own_users() if needs_user("process") else None
    try:
        while True:
            for seat in seats:
                if seat.birth is None and (program := next(programs, None)) is not None:
                    _begin(seat, *program, user=next(users) if users else None, limits=limits)
            if not (busy := [seat for seat in seats if seat.birth is not None]):
                return
            for seat in _listen(busy):
                yield from _end(seat, limits, users)
    finally:
        _close(seats)


def _begin(seat: _Seat[Key], key: Key, source: bytes, *, user: int | None, limits: Limits, tries: int = 1) -> None:
    """Hand a program, and the place that its supervisor shall make for it, to the seat's nursery or to a new one."""
    # Nothing is written here: a harness that is killed now leaves no folder that nobody removes.
    base = Path(tempfile.gettempdir(), f"shardproof-run-{secrets.token_hex(8)}").absolute()
    report, end = os.pipe()
    seat.birth = _Birth(key, source, base, report, time.monotonic() + limits.wall_s + PATIENCE_S, bytearray(), tries)
    program = os.memfd_create("program")
    try:
        _write(program, source)
        for _ in range(TRIES):
            nursery = seat.nursery = seat.nursery or _open_nursery()
            plan = plan_of(base, "process", limits, user=user, marker=nursery.marker)
            try:
                socket.send_fds(nursery.door, [json.dumps(plan).encode()], [end, program])
                nursery.sent += 1
                return
            except (BrokenPipeError, ConnectionResetError):
                # It was lost between two programs; this one has not begun.
                _discard(seat)
    finally:
        os.close(end)
        os.close(program)


def _write(file: int, source: bytes) -> None:
    with os.fdopen(file, "wb", closefd=False) as program:
        program.write(source)
        program.flush()
        program.seek(0)


def _open_nursery() -> _Nursery:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    marker = secrets.token_hex(16)
    with theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-B",
                "-X",
                "utf8",
                str(Path(__file__).with_name("nursery.py")),
                str(theirs.fileno()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={MARKER: marker},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    ours.settimeout(ANSWER_S)
    return _Nursery(process, ours, marker)


def _listen(busy: list[_Seat[Key]]) -> list[_Seat[Key]]:
    """The seats whose report has come to its end, or whose time has."""
    births = {seat.birth.report: seat for seat in busy if seat.birth is not None}
    soonest = min(seat.birth.deadline for seat in births.values() if seat.birth is not None)
    waiting = select.poll()
    for report in births:
        waiting.register(report, select.POLLIN)
    over = []
    for report, _ in waiting.poll(max(0.0, soonest - time.monotonic()) * 1000):
        if not _more(births[report].birth):
            over.append(births.pop(report))
    now = time.monotonic()
    return over + [seat for seat in births.values() if seat.birth is not None and now > seat.birth.deadline]


def _more(birth: _Birth[Key] | None) -> bool:
    if birth is None:
        return False
    piece = os.read(birth.report, 1 << 20)
    birth.said += piece
    return bool(piece)


def _end(seat: _Seat[Key], limits: Limits, users: Iterator[int | None] | None) -> Iterator[tuple[Key, Run]]:
    """Yield the seat's run; nothing where its nursery was lost with it and the program has begun anew."""
    birth, seat.birth = seat.birth, None
    if birth is None:
        return
    os.close(birth.report)
    report, supervisor, nursery_lost = _report(seat, birth)
    if not report:
        _discard(seat)
        _remove(birth.base)
    if nursery_lost and birth.tries < TRIES:
        user = next(users) if users else None
        _begin(seat, birth.key, birth.source, user=user, limits=limits, tries=birth.tries + 1)
        return
    record = record_of(report, level="process", limits=limits, supervisor=supervisor, forked=True)
    yield birth.key, Run(record, *(base64.b64decode(report.get(name, "")) for name in ("stdout", "stderr")))


def _report(seat: _Seat[Key], birth: _Birth[Key]) -> tuple[dict[str, Any], str, bool]:
    """The supervisor's report; where there is none, how it ended and whether the nursery is lost with it."""
    with contextlib.suppress(ValueError):
        report = json.loads(birth.said)
        # We are here and want it, so what this supervisor missed was its nursery.
        return ({}, LOST, True) if report["stopped"] == "harness gone" else (report, "", False)
    if time.monotonic() > birth.deadline:
        return {}, "it did not answer in time", False
    if (status := _status(seat.nursery)) is None:
        return {}, LOST, True
    return {}, f"it ended with {how_it_ended(os.waitstatus_to_exitcode(status))}", False


def _status(nursery: _Nursery | None) -> int | None:
    """How the supervisor of the last program ended, as its nursery says; None where the nursery is lost too."""
    with contextlib.suppress(OSError):
        while nursery is not None and (said := nursery.door.recv(64)):
            number, status = map(int, said.split())
            if number == nursery.sent:
                return status
    return None


def _discard(seat: _Seat[Key]) -> None:
    """End a nursery and every process that was forked from it."""
    nursery, seat.nursery = seat.nursery, None
    if nursery is None:
        return
    nursery.door.close()
    nursery.process.kill()
    nursery.process.wait()
    kill_marked(f"{MARKER}={nursery.marker}")


def _close(seats: list[_Seat[Key]]) -> None:
    """End all nurseries: supervisors see that their report is not wanted, kill what runs and leave."""
    for seat in seats:
        if seat.birth is not None:
            os.close(seat.birth.report)
        if seat.nursery is not None:
            seat.nursery.door.shutdown(socket.SHUT_RDWR)
    patience = time.monotonic() + LEAVE_S
    for seat in seats:
        if seat.nursery is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                seat.nursery.process.wait(max(0.0, patience - time.monotonic()))
            _discard(seat)
        if seat.birth is not None:
            _remove(seat.birth.base)


def _remove(base: Path) -> None:
    # Its supervisor removes it at the end, unless it was lost.
    if base.exists():
        remove_tree(base)
        base.rmdir()
