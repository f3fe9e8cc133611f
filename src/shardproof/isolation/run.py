"""Running a program that is not trusted, from the caller's side: plan, start the warden, read its report."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from shardproof.errors import ShardproofError
from shardproof.isolation.limits import Limits
from shardproof.isolation.namespaces import missing, wrapper
from shardproof.isolation.sweep import kill_marked
from shardproof.isolation.users import needs_user, own_users
from shardproof.isolation.verdict import record_of
from shardproof.isolation.warden import lay_out, remove_tree
from shardproof.records.isolation import Level, RunRecord

MARKER = "SHARDPROOF_RUN"
"""The one variable in a program's environment; finds its processes again if their supervisor is killed."""
PATIENCE_S = 45.0
"""How long the warden may take beyond the program's wall clock, to kill, drain and remove."""


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
        level: `process` (limits, own user where the caller is root, tree killed at the end), `namespaces` (the same
            inside bubblewrap: no network, a read-only system, a private /tmp, its own processes only) or `none`
            (explicit: only the wall clock, the output limit and the end of its tree).
        limits: what the program may use; the defaults suit a page of the Failure Map.

    Returns:
        The run; whatever the program did is a verdict in its record, never an exception.

    Raises:
        IsolationUnavailableError: the level is unknown or cannot be had on this system.

    >>> run_isolated(b"print(6 * 7)").stdout
    b'42\\n'
    """
    require(level)
    limits = limits or Limits()
    user = next(own_users()) if needs_user(level) else None
    if level == "namespaces":
        return _sandboxed(source, limits, user)
    base = Path(tempfile.mkdtemp(prefix="shardproof-run-"))
    try:
        lay_out(base, source, user)
        plan = plan_of(base, level, limits, user=user, marker=secrets.token_hex(16))
        return _run(plan, (), level, limits)
    finally:
        # A warden that was told to stop has removed it already.
        if base.exists():
            remove_tree(base)
            base.rmdir()


def run_lost(why: str, *, level: Level, limits: Limits) -> Run:
    """The run of a program of which nothing is known, since what supervised it was lost."""
    return Run(record_of({}, level=level, limits=limits, supervisor=why), b"", b"")


def require(level: str) -> None:
    """Raise where a level cannot be had.

    Raises:
        IsolationUnavailableError: with the reason.
    """
    if level not in get_args(Level) or os.name != "posix":
        raise IsolationUnavailableError(
            f"Expected level {', '.join(get_args(Level))} on POSIX, got level={level!r} on {os.name}."
        )
    if level == "namespaces" and (reason := missing()) is not None:
        raise IsolationUnavailableError(
            f"Expected namespaces through bubblewrap, got none here: {reason}. Ask for level process, or run where "
            "bwrap is on PATH and may make namespaces."
        )


def _sandboxed(source: bytes, limits: Limits, user: int | None) -> Run:
    if user is None and os.geteuid() == 0:
        raise IsolationUnavailableError(
            "Expected a free uid between 61184 and 65519 for the program, got none: as root it would keep the "
            "capabilities that undo namespaces. Ask for level process, or start it as an ordinary user."
        )
    # The warden itself is inside, and makes the private place there: it is gone with the namespace.
    base = Path("/tmp", f"shardproof-run-{secrets.token_hex(8)}")
    plan = plan_of(base, "namespaces", limits, user=user, marker=secrets.token_hex(16))
    return _run(plan | {"source": base64.b64encode(source).decode()}, wrapper(), "namespaces", limits)


def _run(plan: Mapping[str, Any], wrap: Sequence[str], level: Level, limits: Limits) -> Run:
    report, said = _supervised(plan, wrap, limits.wall_s + PATIENCE_S)
    record = record_of(report, level=level, limits=limits, supervisor=said)
    return Run(record, *(base64.b64decode(report.get(name, "")) for name in ("stdout", "stderr")))


def plan_of(base: Path, level: Level, limits: Limits, *, user: int | None, marker: str) -> dict[str, Any]:
    """The plan by which a warden runs the program that lies in `base`."""
    program = base / "program.py"
    kept = dict(os.environ) if level == "none" else {}
    interpreter = str(Path(sys.executable).resolve())
    return {
        "level": level,
        "command": [sys.executable, "-I", "-B", "-X", "utf8", str(program)],
        "environment": kept | {MARKER: marker},
        "folder": str(base / "folder"),
        "user": user,
        "reads": [str(program), sys.executable, interpreter, os.__file__, json.__file__],
        "confine": str(Path(__file__).with_name("confine.py")),
        "limits": dataclasses.asdict(limits),
    }


def _supervised(plan: Mapping[str, Any], wrap: Sequence[str], patience_s: float) -> tuple[dict[str, Any], str]:
    """The warden's report, and its last words where there is none; all marked processes are gone after."""
    warden = subprocess.Popen(
        [*wrap, sys.executable, "-I", "-B", "-S", str(Path(__file__).with_name("warden.py"))],
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
    return _lost(plan, f"it ended with {how_it_ended(warden.returncode)} {last}".strip())


def how_it_ended(code: int) -> str:
    """A return code in words: the name of the signal, or exit and its number."""
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def _lost(plan: Mapping[str, Any], why: str) -> tuple[dict[str, Any], str]:
    kill_marked(f"{MARKER}={plan['environment'][MARKER]}")
    return {}, why
