"""The last step before a program that is not trusted: limits this process, then becomes the program.

Run as a script by the warden (`python -I -B -S confine.py PLAN`); standard library only. It tells the warden
over the pipe `status` what was enforced and what could not be; the pipe closes when the program starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 8, 38, 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_READ_SEARCH = 2
LINUX_CAPABILITY_VERSION_3 = 0x20080522
LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Confine this process as the plan in argv says, then become the program."""
    plan: dict[str, Any] = json.loads(sys.argv[1])
    status = blank()
    try:
        prepare(plan, status)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(ignored, signal.SIG_DFL)
        os.set_inheritable(plan["status"], False)
        tell(plan["status"], status)
        os.execve(plan["command"][0], plan["command"], plan["environment"])
    except OSError as error:
        tell(plan["status"], status | {"error": str(error)})
        os._exit(127)


def blank() -> dict[str, Any]:
    """A status of which nothing is known yet."""
    return {"enforced": [], "not_enforced": [], "user": None, "error": None}


def prepare(plan: dict[str, Any], status: dict[str, Any]) -> None:
    """Confine this process and put it into its folder; `status` takes what was enforced and what could not be."""
    if plan["level"] != "none":
        _confine(plan, status)
    os.chdir(plan["folder"])
    os.umask(0o077)


def tell(pipe: int, status: dict[str, Any]) -> None:
    """Write one line that the warden reads."""
    os.write(pipe, json.dumps(status).encode() + b"\n")


def _confine(plan: dict[str, Any], status: dict[str, Any]) -> None:
    _attempt(status, "no setuid gains, no new privileges", _no_new_privileges)
    if plan["user"] is not None:
        _drop_root(plan, status)
    for what, kind, soft, hard in _ceilings(plan["limits"], os.getuid(), own=status["user"] is not None):
        if kind == resource.RLIMIT_NPROC and os.getuid() == 0:
            status["not_enforced"].append("the number of processes (the kernel does not limit root's)")
        else:
            _attempt(status, what, functools.partial(_lower, kind, soft, hard))
    _attempt(status, "it dies with its supervisor", lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    if os.getppid() != plan["warden"]:
        os._exit(127)


def _drop_root(plan: dict[str, Any], status: dict[str, Any]) -> None:
    user, folder = plan["user"], plan["folder"]
    own = "a user of its own, who can signal no other user's processes and write no other user's files"
    if not _attempt(status, own, lambda: _become(user, folder), "a user of its own (it runs as root)"):
        return
    status["user"] = user
    if _let_it_read(plan["reads"], folder):
        status["not_enforced"].append("reading every user's files (Python itself lies where only root can read)")
    else:
        # What KEEPCAPS kept would end with execve; a forked program has none.
        keep_capabilities(0)


def _attempt(status: dict[str, Any], what: str, act: Callable[[], object], otherwise: str | None = None) -> bool:
    try:
        act()
    except (OSError, ValueError, AttributeError) as error:
        status["not_enforced"].append(f"{otherwise or what}: {error}")
        return False
    status["enforced"].append(what)
    return True


def _ceilings(limits: dict[str, Any], user: int, *, own: bool) -> list[tuple[str, int, int, int]]:
    mib = 1024 * 1024
    # The kernel counts all processes of a user together; a user that was here before has some already.
    processes = limits["processes"] + (0 if own else _tasks_of(user))
    cpu, memory, size, files = (limits[k] for k in ("cpu_s", "memory_bytes", "file_bytes", "open_files"))
    return [
        (f"cpu time {cpu} s for each process", resource.RLIMIT_CPU, cpu, cpu + 1),
        (f"address space {memory // mib} MiB for each process", resource.RLIMIT_AS, memory, memory),
        (f"file size {size // mib} MiB for each file", resource.RLIMIT_FSIZE, size, size),
        (f"processes and threads {limits['processes']}", resource.RLIMIT_NPROC, processes, processes),
        (f"open files {files} for each process", resource.RLIMIT_NOFILE, files, files),
        ("no core files", resource.RLIMIT_CORE, 0, 0),
    ]


def _lower(kind: int, soft: int, hard: int) -> None:
    present = resource.getrlimit(kind)[1]
    if present != resource.RLIM_INFINITY:
        soft, hard = min(soft, present), min(hard, present)
    resource.setrlimit(kind, (soft, hard))


def _tasks_of(user: int) -> int:
    count = 0
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and entry.stat().st_uid == user:
                    count += sum(1 for _ in os.scandir(f"/proc/{entry.name}/task"))
    return count


def _become(user: int, folder: str) -> None:
    os.chown(folder, user, user)
    _prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _let_it_read(paths: list[str], folder: str) -> bool:
    """Let the new user start Python where only root can read it; True when that took a capability."""
    # access() asks for the bare user, whatever capabilities are kept: can this user read Python at all?
    if all(os.access(path, os.R_OK) for path in paths) and os.access(folder, os.W_OK):
        return False
    # Python often lies below a home that other users cannot enter. This one capability, which is to read,
    # lets the new user start it; all others end with execve, and nothing becomes writable.
    keep_capabilities(1 << CAP_DAC_READ_SEARCH)
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH)
    return True


def keep_capabilities(mask: int) -> None:
    """Give up every capability that is not in `mask`; without an execve nothing else does.

    Raises:
        OSError: the kernel refuses.
    """
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    if LIBC.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")


def _no_new_privileges() -> None:
    _prctl(PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, *values: int) -> None:
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if LIBC.prctl(ctypes.c_int(option), *arguments) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


if __name__ == "__main__":
    main()
