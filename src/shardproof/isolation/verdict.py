"""From the warden's report to the record of a run: one ending, one sentence, and what the level held."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Mapping
from typing import Any

from shardproof.isolation.limits import Limits
from shardproof.records.isolation import Ending, Isolation, Level, RunRecord

TAIL = 2000
FORKED = "an interpreter of its own: hash seed, memory layout and imported standard modules are those of its nursery"
NAMESPACES = (
    "no network but a loopback of its own",
    "a read-only system of which only libraries and Python are there",
    "a private /tmp and /var/tmp, gone after",
    "processes, IPC and host name of its own",
)
ALWAYS_OPEN = (
    "memory and disk use of all its processes together",
    "which system calls it makes",
)


def record_of(
    report: Mapping[str, Any], *, level: Level, limits: Limits, supervisor: str, forked: bool = False
) -> RunRecord:
    """Grade the warden's report.

    Args:
        report: an empty one means that the supervisor was lost.
        level: how the program was held.
        limits: what it might use.
        supervisor: how its supervisor was lost, where it was.
        forked: it ran in a fork of a warm interpreter, not in one that was started for it.
    """
    stderr = base64.b64decode(report.get("stderr", "")).decode(errors="backslashreplace")
    ending, detail = _ending(report, limits, stderr, supervisor)
    # Where it was stopped, how its process then ended is our doing and says nothing about the program.
    status = None if report.get("stopped") else report.get("ended")
    return RunRecord(
        ending=ending,
        exit_code=os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
        signal=_signal(status),
        detail=detail + _extras(report),
        left_processes=report.get("left", 0),
        unkilled_processes=report.get("unkilled", 0),
        wrote_elsewhere=tuple(_printable(path) for path in report.get("elsewhere", ())),
        wrote_in_folder=report.get("inside", 0),
        wall_s=round(report.get("wall_s", 0.0), 3),
        cpu_s=round(report.get("cpu_s", 0.0), 3),
        stdout_bytes=len(base64.b64decode(report.get("stdout", ""))),
        stderr_tail=stderr[-TAIL:],
        isolation=_isolation(report, level, limits, forked),
    )


def _ending(report: Mapping[str, Any], limits: Limits, stderr: str, supervisor: str) -> tuple[Ending, str]:
    if not report or report["stopped"] == "harness gone":
        return "supervisor lost", f"its supervisor was lost: {supervisor or 'it was told to stop'}"
    if report["confinement"]["error"]:
        return "not started", f"it could not be started: {report['confinement']['error']}"
    if report["stopped"] == "output":
        return "output", f"it wrote more than {limits.output_bytes} bytes on one output stream"
    if report["stopped"] == "wall time":
        return "wall time", f"it was killed after {limits.wall_s:g} s of wall clock"
    return _own_ending(report, limits, stderr)


def _own_ending(report: Mapping[str, Any], limits: Limits, stderr: str) -> tuple[Ending, str]:
    name, confined = _signal(report["ended"]), report["confinement"]["enforced"]
    limited = any(line.startswith("cpu time") for line in confined)
    if name == "SIGXCPU" or (name == "SIGKILL" and limited and report["cpu_s"] >= limits.cpu_s):
        return "cpu time", f"the system killed it after {limits.cpu_s} s of processor time"
    if name is not None:
        return "signal", f"it was killed by {name}"
    code = os.WEXITSTATUS(report["ended"])
    if code and stderr.strip().rpartition("\n")[2].startswith("MemoryError"):
        return "memory", f"it exited {code}, out of memory as its last words say"
    if report["left"]:
        return "left processes", f"it exited {code} and left {report['left']} running; they were killed"
    return "exited", f"it exited {code}"


def _signal(status: int | None) -> str | None:
    if status is None or not os.WIFSIGNALED(status):
        return None
    try:
        return signal.Signals(os.WTERMSIG(status)).name
    except ValueError:
        return f"signal {os.WTERMSIG(status)}"


def _extras(report: Mapping[str, Any]) -> str:
    said = []
    if report.get("elsewhere"):
        said.append(f"wrote outside its folder: {', '.join(map(_printable, report['elsewhere'][:3]))}")
    if report.get("unkilled"):
        said.append(f"{report['unkilled']} of its processes could not be killed")
    return "".join(f"; {line}" for line in said)


def _isolation(report: Mapping[str, Any], level: Level, limits: Limits, forked: bool) -> Isolation:
    confinement = report.get("confinement", {"enforced": [], "not_enforced": [], "user": None})
    enforced = [
        f"wall clock {limits.wall_s:g} s",
        f"output {limits.output_bytes} bytes on each stream",
        "standard input is empty",
        "a folder of its own, removed after",
        *(["an environment of one variable"] if level != "none" else []),
        *(NAMESPACES if level == "namespaces" else ()),
        *confinement["enforced"],
    ]
    tree = "its whole process tree is killed, whatever left its session"
    open_ends = [*confinement["not_enforced"], *([FORKED] if forked else []), *ALWAYS_OPEN]
    if level != "namespaces":
        open_ends += ["network access", *_writing(confinement["user"])]
    (enforced if report.get("subreaper") else open_ends).append(tree)
    return Isolation(
        requested=level,
        achieved=level,
        user=confinement["user"],
        enforced=tuple(enforced),
        not_enforced=tuple(open_ends),
    )


def _writing(user: int | None) -> list[str]:
    if user is None:
        return [
            "reading and writing what this user can, and killing this user's processes",
            "seeing what it wrote outside its own folder",
        ]
    return [
        "reading what every user may read, and writing what every user may write",
        "seeing what it wrote outside its own folder, but for what it made in /tmp, /var/tmp, /dev/shm, "
        "/dev/mqueue and /run/lock (found by its owner)",
    ]


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
