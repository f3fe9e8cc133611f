"""The level `namespaces`: the whole supervised run inside bubblewrap, which sees only a read-only system and Python."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/alternatives",
)
PROBE = "import socket, os, sys; sys.exit(len(socket.if_nameindex()) != 1 or os.getpid() > 9)"
"""Holds only where the network is the loopback alone and processes are counted anew."""
PROBE_S = 20.0


def wrapper() -> list[str]:
    """The command that a Python command follows: bwrap, what it unshares, and what it shows."""
    shown = [argument for path in _shown() for argument in ("--ro-bind-try", path, path)]
    # Root keeps its capabilities inside, so that the warden can give the program a user of its own and kill it;
    # others need a user namespace, in which they stay who they are.
    unshared = ["--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    unshared += ["--cap-add", "ALL"] if os.geteuid() == 0 else ["--unshare-user"]
    made = ["--perms", "1777", "--tmpfs", "/tmp", "--perms", "1777", "--tmpfs", "/var/tmp", "--proc", "/proc"]
    made += ["--dev", "/dev"]
    ends = ["--die-with-parent", "--new-session", "--chdir", "/", "--clearenv"]
    return [shutil.which("bwrap") or "bwrap", *unshared, *made, *shown, "--remount-ro", "/", *ends, "--"]


def _shown() -> list[str]:
    """The system's libraries, and where Python and this room lie; never the root or a home as a whole."""
    python = [sys.prefix, sys.base_prefix, str(Path(os.__file__).parent), str(Path(sys.executable).resolve().parent)]
    paths = [*SYSTEM, *python, str(Path(__file__).parent)]
    return [path for path in dict.fromkeys(paths) if path != "/"]


@functools.cache
def missing() -> str | None:
    """Why the level cannot be had here, after trying it once; None where it can."""
    if not sys.platform.startswith("linux"):
        return f"namespaces are Linux's, this is {sys.platform}"
    if shutil.which("bwrap") is None:
        return "bwrap is not on PATH"
    try:
        tried = subprocess.run(
            [*wrapper(), sys.executable, "-I", "-S", "-c", PROBE], capture_output=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap could not be tried: {error}"
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"bwrap ended with {tried.returncode}: {said or 'the network or the processes outside were still seen'}"
