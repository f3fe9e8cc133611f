"""Running a program that is not trusted, from the caller's side: plan, start the warden, read its report."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import pwd
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from shardproof.errors import ShardproofError
from shardproof.isolation.limits import Limits
from shardproof.isolation.sweep import kill_marked
from shardproof.isolation.verdict import record_of
from shardproof.isolation.warden import remove_tree
from shardproof.records.isolation import Level, RunRecord

MARKER = "SHARDPROOF_RUN"
"""The one variable in a program's environment; finds its processes again if their supervisor is killed."""
PATIENCE_S = 45.0
"""How long the warden may take beyond the program's wall clock, to kill, drain and remove."""
OWN_USERS = range(61184, 65520)
"""uids that distributions set aside for services of one run."""


class IsolationUnavailableError(ShardproofError, RuntimeError):
    """The level that was asked for cannot be had on this system; nothing was run."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One ended program: the record to store, and what it said, cut at the output limit."""

    record: RunRecord
    stdout: bytes
    stderr: bytes


def run_isolated(source: bytes, *, level: Level = "process", limits: Limits | None = None) -> Run:
    """Run a Python program exactly as given, hold it at `level`, and say how it ended; nothing of it stays.

    Args:
        source: the program's bytes; written to a file of a private folder and run with `python -I -B`.
        level: `process` (limits, own user where the caller is root, tree killed at the end) or `none`
            (explicit: only the wall clock, the output limit and the end of its tree).
        limits: what the program may use; the defaults suit a page of the Failure Map.

    Returns:
        The run; whatever the program did is a verdict in its record, never an exception.

    Raises:
        IsolationUnavailableError: the level is unknown or cannot be had on this system.

    >>> run_isolated(b"print(6 * 7)").stdout
    b'42\\n'
    """
    if level not in get_args(Level) or os.name != "posix":
        raise IsolationUnavailableError(
            f"Expected level {' or '.join(get_args(Level))} on POSIX, got level={level!r} on {os.name}."
        )
    limits = limits or Limits()
    base = Path(tempfile.mkdtemp(prefix="shardproof-run-"))
    try:
        plan = _plan(base, source, level, limits)
        report, said = _supervised(plan, limits.wall_s + PATIENCE_S)
        record = record_of(report, level=level, limits=limits, supervisor=said)
        return Run(record, *(base64.b64decode(report.get(name, "")) for name in ("stdout", "stderr")))
    finally:
        # A warden that was told to stop has removed it already.
        if base.exists():
            remove_tree(base)
            base.rmdir()


def _plan(base: Path, source: bytes, level: Level, limits: Limits) -> dict[str, Any]:
    program, folder = base / "program.py", base / "folder"
    program.write_bytes(source)
    folder.mkdir(mode=0o700)
    user = _own_user() if level == "process" and os.geteuid() == 0 else None
    if user is not None:
        base.chmod(0o711)
        program.chmod(0o444)
    kept = dict(os.environ) if level == "none" else {}
    interpreter = str(Path(sys.executable).resolve())
    return {
        "level": level,
        "command": [sys.executable, "-I", "-B", "-X", "utf8", str(program)],
        "environment": kept | {MARKER: secrets.token_hex(16)},
        "folder": str(folder),
        "user": user,
        "reads": [str(program), sys.executable, interpreter, os.__file__, json.__file__],
        "confine": str(Path(__file__).with_name("confine.py")),
        "limits": dataclasses.asdict(limits),
    }


def _own_user() -> int | None:
    """An unprivileged uid that no account and no process has; None where there is none."""
    running = _users_running()
    for user in sorted(OWN_USERS, key=lambda _: secrets.randbits(32)):
        if user not in running and _mapped(user):
            try:
                pwd.getpwuid(user)
            except KeyError:
                return user
    return None


def _users_running() -> set[int]:
    users = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            users.add(path.stat().st_uid)
    return users


def _mapped(user: int) -> bool:
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return True
    ranges = [[int(number) for number in line.split()] for line in lines]
    return any(first <= user < first + count for first, _, count in ranges)


def _supervised(plan: Mapping[str, Any], patience_s: float) -> tuple[dict[str, Any], str]:
    """The warden's report, and its last words where there is none; all marked processes are gone after."""
    warden = subprocess.Popen(
        [sys.executable, "-I", "-B", "-S", str(Path(__file__).with_name("warden.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = warden.communicate(json.dumps(plan).encode(), timeout=patience_s)
    except subprocess.TimeoutExpired:
        warden.kill()
        warden.communicate()
        return _lost(plan, f"it did not answer within {patience_s:g} s")
    except BaseException:
        # Interrupted here: the warden kills the tree when told to, and the interrupt goes on.
        warden.terminate()
        warden.communicate()
        raise
    if warden.returncode == 0:
        return json.loads(out), ""
    last = err.decode(errors="replace").strip().rpartition("\n")[2]
    ended = signal.Signals(-warden.returncode).name if warden.returncode < 0 else f"exit {warden.returncode}"
    return _lost(plan, f"it ended with {ended} {last}".strip())


def _lost(plan: Mapping[str, Any], why: str) -> tuple[dict[str, Any], str]:
    kill_marked(f"{MARKER}={plan['environment'][MARKER]}")
    return {}, why
