"""The supervisor of a program that is not trusted: starts it, watches it, kills its tree, tells what it saw.

Run as a script (`python -I -B -S warden.py`) with a plan as JSON on standard input, it prints a report as
JSON; the nursery forks it instead. Standard library only, one thread, no import of shardproof: it must start fast
and fork safely. It is the subreaper of the program's tree, so a descendant that leaves its session or loses its
parent stays its own.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import dataclasses
import itertools
import json
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
POLL_S = 0.02
GRACE_S = 0.2
"""How long descendants may outlive the program before they count as left behind."""
KILL_S = 10.0
"""How long killing the tree may take before the report says that it failed."""
LOOKS = 3
PROC = Path("/proc")
LIBC = ctypes.CDLL(None, use_errno=True)
"""Opened once: opening makes types, and a fork would make them again for each program."""
WORLD_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock", "/run/shm", "/var/lock")


@dataclasses.dataclass
class Watched:
    """The program, as it runs: what it has said so far and how it ended."""

    pid: int
    streams: dict[int, str]
    said: dict[str, bytearray]
    handle: int | None = None
    """Readable when the program has ended; None where the system has no such thing, and after."""
    ended: int | None = None
    cpu_s: float = 0.0


def main() -> None:
    """Read a plan, run it, print the report."""
    plan: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    harness = os.getppid()
    if "source" in plan:
        Path(plan["folder"]).parent.mkdir(mode=0o700)
        lay_out(Path(plan["folder"]).parent, base64.b64decode(plan.pop("source")), plan["user"])
    report = supervise(plan, gone=lambda: os.getppid() != harness)
    sys.stdout.write(json.dumps(report))
    sys.stdout.flush()


def lay_out(base: Path, source: bytes, user: int | None) -> None:
    """Write the program into a run's private place, beside the folder that it starts in."""
    program = base / "program.py"
    program.write_bytes(source)
    (base / "folder").mkdir(mode=0o700)
    if user is not None:
        base.chmod(0o711)
        program.chmod(0o444)


def supervise(
    plan: dict[str, Any],
    *,
    gone: Callable[[], bool],
    launch: Callable[[dict[str, Any], int, int], None] | None = None,
) -> dict[str, Any]:
    """Run the program of `plan` to its end, kill what is left of its tree, and return what was seen.

    Args:
        plan: what to run, where, and how it is held.
        gone: whether whoever wants the report is no longer there.
        launch: turns the forked child into the program, given the ends of its output; default: by execve.
    """
    asked_to_stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(1))
    # Not dumpable: a program of the same user cannot open this process's pipes and forge the report.
    subreaper = prctl(PR_SET_CHILD_SUBREAPER, 1) and prctl(PR_SET_DUMPABLE, 0)
    began = time.monotonic()
    watched, confinement = _start(plan, launch or _become_confine)
    stopped = _watch(watched, plan, began, lambda: bool(asked_to_stop) or gone())
    wall_s = time.monotonic() - began
    left = 0 if stopped else _outlived(watched)
    unkilled = _kill_tree(watched)
    flooded = _drain(watched, plan["limits"]["output_bytes"])
    report = {
        "ended": watched.ended,
        "stopped": stopped or (flooded and "output"),
        "left": left,
        "unkilled": unkilled,
        "elsewhere": _remove_strays(confinement["user"]),
        "inside": remove_tree(Path(plan["folder"])),
        "wall_s": wall_s,
        "cpu_s": watched.cpu_s,
        "subreaper": subreaper,
        "confinement": confinement,
    }
    if stopped == "harness gone":
        remove_tree(Path(plan["folder"]).parent)
        Path(plan["folder"]).parent.rmdir()
    return report | {name: base64.b64encode(said).decode() for name, said in watched.said.items()}


def _start(plan: dict[str, Any], launch: Callable[[dict[str, Any], int, int], None]) -> tuple[Watched, dict[str, Any]]:
    (out, out_end), (err, err_end), (status, status_end) = os.pipe(), os.pipe(), os.pipe()
    warden = os.getpid()
    pid = os.fork()
    if pid == 0:
        launch(plan | {"status": status_end, "warden": warden}, out_end, err_end)
    for end in (out_end, err_end, status_end):
        os.close(end)
    with os.fdopen(status, "rb") as told:
        lines = told.read().splitlines()
    said = {"stdout": bytearray(), "stderr": bytearray()}
    watched = Watched(pid, {out: "stdout", err: "stderr"}, said, _handle(pid))
    silent: dict[str, Any] = {
        "enforced": [],
        "not_enforced": [],
        "user": None,
        "error": "the launcher said nothing",
    }
    return watched, json.loads(lines[-1]) if lines else silent


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _become_confine(plan: dict[str, Any], out: int, err: int) -> None:
    try:
        os.setsid()
        for target, end in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
            os.dup2(end, target)
        os.set_inheritable(plan["status"], True)
        arguments = [sys.executable, "-I", "-B", "-S", plan["confine"], json.dumps(plan)]
        os.execv(sys.executable, arguments)
    finally:
        os._exit(127)


def _watch(watched: Watched, plan: dict[str, Any], began: float, unwanted: Callable[[], bool]) -> str | None:
    """Follow the program until it ends (None) or must be stopped (the reason)."""
    deadline = began + plan["limits"]["wall_s"]
    while True:
        _listen(watched, POLL_S)
        _reap(watched)
        if max(map(len, watched.said.values())) > plan["limits"]["output_bytes"]:
            return "output"
        if watched.ended is not None:
            return None
        if unwanted():
            return "harness gone"
        if time.monotonic() > deadline:
            return "wall time"


def _listen(watched: Watched, wait_s: float) -> None:
    handles = [] if watched.handle is None else [watched.handle]
    for stream in select.select([*watched.streams, *handles], [], [], wait_s)[0]:
        if stream == watched.handle:
            continue
        if piece := os.read(stream, 65536):
            watched.said[watched.streams[stream]] += piece
        else:
            os.close(stream)
            del watched.streams[stream]


def _reap(watched: Watched) -> bool:
    """Take the ended children, orphans of the tree among them; True while there are others.

    A descendant always has an ancestor among the children of a subreaper, so False means that the tree is gone;
    a look through /proc cannot prove that, since processes that fork fast enough are gone before it comes by.
    """
    try:
        while (ended := os.wait4(-1, os.WNOHANG))[0]:
            if ended[0] == watched.pid:
                watched.ended = ended[1]
                watched.cpu_s = ended[2].ru_utime + ended[2].ru_stime
                _forget_handle(watched)
    except ChildProcessError:
        return False
    return True


def _forget_handle(watched: Watched) -> None:
    # Readable for good from now on: a wait for what the pipes still bring would not wait.
    if watched.handle is not None:
        os.close(watched.handle)
        watched.handle = None


def _outlived(watched: Watched) -> int:
    """How many descendants are still alive a moment after the program has ended."""
    patience = time.monotonic() + GRACE_S
    while (left := _reap(watched)) and time.monotonic() < patience:
        time.sleep(POLL_S)
    return max(1, len(_descendants())) if left else 0


def _kill_tree(watched: Watched) -> int:
    """Kill every descendant; return how many would not die."""
    patience = time.monotonic() + KILL_S
    if watched.ended is None or not PROC.is_dir():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(watched.pid, signal.SIGKILL)
    while _reap(watched):
        if time.monotonic() > patience:
            return max(1, len(_descendants()))
        _kill_seen(patience)
    return 0


def _kill_seen(patience: float) -> None:
    # Nothing is reaped before several looks found none alive: a zombie still counts against the limit on
    # processes, so whatever forks faster than we look soon has no place left to fork into, and stands still.
    quiet = 0
    while quiet < LOOKS and time.monotonic() < patience:
        living = _descendants()
        quiet = 0 if living else quiet + 1
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _descendants() -> list[int]:
    """The living processes below this one, from /proc; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    alive = set()
    for pid, parent, state in _processes():
        children.setdefault(parent, []).append(pid)
        if state not in b"ZX":
            alive.add(pid)
    below, found = [os.getpid()], []
    while below:
        for pid in children.get(below.pop(), []):
            below.append(pid)
            found.append(pid)
    return [pid for pid in found if pid in alive]


def _processes() -> Iterator[tuple[int, int, bytes]]:
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name of the program stands in parentheses and may itself hold spaces and parentheses.
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            yield int(folder.name), int(parent), state


def _drain(watched: Watched, most: int) -> bool:
    """Read what the pipes still hold; True when there was more than the output limit."""
    patience = time.monotonic() + KILL_S
    while watched.streams and time.monotonic() < patience and max(map(len, watched.said.values())) <= most:
        _listen(watched, POLL_S)
    flooded = max(map(len, watched.said.values())) > most
    for said in watched.said.values():
        del said[most:]
    return flooded


def _remove_strays(user: int | None) -> list[str]:
    """Remove and name what the run's own user left in places where every user may write."""
    if user is None:
        return []
    found = list(_owned_by(user))
    for path in found:
        with contextlib.suppress(OSError):
            if _is_folder(path):
                remove_tree(path)
                path.rmdir()
            else:
                path.unlink()
    return sorted(map(str, found))


def _owned_by(user: int) -> Iterator[Path]:
    below = list({os.path.realpath(place) for place in WORLD_WRITABLE})
    while below:
        with contextlib.suppress(OSError), os.scandir(below.pop()) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                if about.st_uid == user:
                    yield Path(entry.path)
                elif stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_IWOTH:
                    below.append(entry.path)


def remove_tree(top: Path) -> int:
    """Empty a folder that a program filled, however deep it nested; return how many entries it held."""
    # Deeper folders are moved up to the top one by one: no recursion, no path longer than the system takes.
    token, removed = os.urandom(8).hex(), 0
    fresh = itertools.count()
    top.chmod(0o700)
    while entries := list(top.iterdir()):
        for path in entries:
            removed += not path.name.startswith(token)
            if not _is_folder(path):
                path.unlink()
                continue
            path.chmod(0o700)
            for inner in list(path.iterdir()):
                removed += 1
                if _is_folder(inner):
                    inner.chmod(0o700)
                inner.rename(top / f"{token}-{next(fresh)}")
            path.rmdir()
    return removed


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def prctl(option: int, value: int) -> bool:
    """Whether the system has the option and took the value."""
    try:
        return bool(LIBC.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3) == 0)
    except AttributeError:
        return False


if __name__ == "__main__":
    main()
