"""A warm interpreter that is forked twice for each program: into its supervisor, and from there into the program.

Run as a script (`python -I -B -X utf8 nursery.py SOCKET`); standard library only, one thread. Each request on the
socket is one plan with the pipe for its report. The nursery itself reads none: what it held, every later program
would find in its memory. Its two children import what it needs of this folder and forget it again.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import types
from pathlib import Path
from typing import Any

WARM = ("collections", "decimal", "fractions", "functools", "itertools", "math", "struct")
"""What programs of the Failure Map import, or may."""
PR_SET_DUMPABLE = 4
MOST = 8
"""Supervisors at one time: one runs a program, the others still remove what theirs left."""


class Born(BaseException):
    """This process is a program now; its argument is the program's path."""


def main() -> None:
    """Fork for every request until the harness is gone; raises Born in each program's own process."""
    door = socket.socket(fileno=int(sys.argv[1]))
    warden, confine = _siblings()
    for name in WARM:
        importlib.import_module(name)
    warden.prctl(PR_SET_DUMPABLE, 0)
    waiting, bell = select.poll(), _bell()
    for end in (door.fileno(), bell):
        waiting.register(end, select.POLLIN)
    gc.collect()
    gc.freeze()
    count, numbers = 0, dict[int, int]()
    while not (events := dict(waiting.poll())).get(door.fileno(), 0) & (select.POLLHUP | select.POLLERR):
        if bell in events:
            os.read(bell, 4096)
        if door.fileno() in events:
            count += 1
            numbers[_fork(door, warden, confine)] = count
        _reap(door, numbers)
    while numbers:
        _reap(door, numbers, 0)
    os._exit(0)


def _bell() -> int:
    """A pipe that becomes readable when a child has ended."""
    bell, hammer = os.pipe()
    for end in (bell, hammer):
        os.set_blocking(end, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(hammer, warn_on_full_buffer=False)
    return bell


def _fork(door: socket.socket, warden: Any, confine: Any) -> int:
    taken, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _supervise(door, end, warden, confine)
    os.close(end)
    # Until the supervisor has taken its request, the door still shows it.
    os.read(taken, 1)
    os.close(taken)
    return pid


def _reap(door: socket.socket, numbers: dict[int, int], how: int = os.WNOHANG) -> None:
    """Tell the harness the number and the status of each supervisor that ended other than well."""
    if len(numbers) > MOST:
        how = 0
    while numbers and (ended := os.waitpid(-1, how))[0]:
        number, how = numbers.pop(ended[0]), os.WNOHANG
        if ended[1]:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                door.send(f"{number} {ended[1]}".encode())


def _siblings() -> tuple[types.ModuleType, types.ModuleType]:
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("warden"), importlib.import_module("confine")
    finally:
        sys.path.remove(folder)


def _supervise(door: socket.socket, taken: int, warden: Any, confine: Any) -> None:
    """Supervise one program in this fork of the nursery, and end; only the program itself leaves by Born."""
    status = 1
    try:
        request, pipes, _, _ = socket.recv_fds(door, 1 << 16, 2)
        door.close()
        os.close(taken)
        plan = json.loads(request)
        base = Path(plan["folder"]).parent
        base.mkdir(mode=0o700)
        with os.fdopen(pipes[1], "rb") as program:
            warden.lay_out(base, program.read(), plan["user"])
        nursery, reader = os.getppid(), select.poll()
        reader.register(pipes[0], 0)
        report = warden.supervise(
            plan,
            # A pipe without a reader: the harness was killed, or wants the report no more.
            gone=lambda: os.getppid() != nursery or bool(reader.poll(0)),
            launch=lambda plan, out, err: _become(plan, out, err, confine, warden),
        )
        # The harness may be gone by now; what the program left is removed all the same.
        with contextlib.suppress(BrokenPipeError), os.fdopen(pipes[0], "wb") as pipe:
            pipe.write(json.dumps(report).encode())
        # The report is there and the next program may begin; removing folders waits for the disk.
        if base.exists():
            warden.remove_tree(base)
            base.rmdir()
        status = 0
    except Born:
        status = -1
        raise
    finally:
        if status >= 0:
            os._exit(status)


def _become(plan: dict[str, Any], out: int, err: int, confine: Any, warden: Any) -> None:
    """Make of this fork what `confine.py` and execve make: the program's process, but for what the nursery imported."""
    status = confine.blank()
    try:
        os.setsid()
        for target, end in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
            os.dup2(end, target)
        os.closerange(3, plan["status"])
        os.closerange(plan["status"] + 1, os.sysconf("SC_OPEN_MAX"))
        confine.prepare(plan, status)
        _undo(plan["environment"])
        # Becoming a user ended the right to look at its own /proc, which a program that was started has.
        warden.prctl(PR_SET_DUMPABLE, 1)
        confine.tell(plan["status"], status)
        os.close(plan["status"])
    except OSError as error:
        confine.tell(plan["status"], status | {"error": str(error)})
        os._exit(127)
    raise Born(plan["command"][-1])


def _undo(environment: dict[str, str]) -> None:
    """What execve and a starting interpreter set anew: signals, the environment, the modules of this folder."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    for name in ("warden", "confine"):
        del sys.modules[name]


def _program(path: str) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = module
    sys.argv[:] = [path]
    return module


def _end(code: object) -> None:
    """End this process at once where that shows nothing; else return, for the interpreter to end as it always does.

    Tearing an interpreter down touches each of its pages, which a fork then has to copy: three times the cost of
    running a small program. What a program left is finalised here; modules that it shares with the nursery are not.
    """
    if not (code is None or isinstance(code, int)) or _thread._count() or atexit._ncallbacks() != CALLBACKS:
        return
    sys.modules["__main__"].__dict__.clear()
    gc.collect()
    if _thread._count() or atexit._ncallbacks() != CALLBACKS:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit((code or 0) & 0xFF)


CALLBACKS = atexit._ncallbacks()
"""Those of the interpreter itself, before any program has run."""

if __name__ == "__main__":
    _path, _code = "", None  # type: tuple[str, object]
    try:
        main()
    except Born as _born:
        _path = _born.args[0]
    try:
        exec(compile(Path(_path).read_bytes(), _path, "exec", dont_inherit=True), _program(_path).__dict__)
    except SystemExit as _error:
        _code = _error.code
    except Exception as _error:
        # Its own last words, without the line of this file.
        _error.__traceback__ = _error.__traceback__ and _error.__traceback__.tb_next
        sys.excepthook(type(_error), _error, _error.__traceback__)
        _code = 1
    _end(_code)
    sys.exit(_code)  # type: ignore[arg-type]
