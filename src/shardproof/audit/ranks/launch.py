"""Starting ranks from a warm forkserver, listening to them without ever blocking on one, and ending them."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import selectors
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

from shardproof.audit.layouts import Layout
from shardproof.audit.ranks import strays
from shardproof.audit.ranks.channel import GarbledChannelError, Inbox, Message, frame
from shardproof.audit.ranks.entry import Setup, serve
from shardproof.audit.subjects import framework_of
from shardproof.errors import InvalidValueError

LOG_HEAD: Final = 4000
LOG_TAIL: Final = 2000
LONGEST_STAGE: Final = 200
END_S: Final = 10.0
"""How long the forkserver may take to say that a rank which was killed has ended."""
_main_lock = threading.Lock()
_running: set[int] = set()


@dataclass
class Rank:
    """The harness's end of one rank."""

    rank: int
    process: ForkServerProcess
    commands: Connection
    results: Connection
    log: Connection
    inbox: Inbox = field(default_factory=Inbox)
    messages: list[Message] = field(default_factory=list)
    stage: str = "starting"
    ended: bool = False
    head: bytes = b""
    tail: bytes = b""

    @property
    def text(self) -> str:
        """What the rank printed, its middle left out when it was long; shown, never parsed."""
        cut = b"\n[...]\n" if len(self.head) == LOG_HEAD and self.tail else b""
        return (self.head + cut + self.tail).decode(errors="replace").replace("\x00", "")


@contextlib.contextmanager
def ranks_of(
    layout: Layout,
    spec: str,
    *,
    plain_function: bool,
    scratch: Path,
    timeout_s: float,
    norm_type: float = 2.0,
    processes: int | None = None,
) -> Iterator[list[Rank]]:
    """Start one process for each rank, or as many `processes`; all, and what they started, are ended on exit."""
    if processes is None and framework_of(spec) == "jax" and not plain_function:
        raise InvalidValueError(f"Expected a subject of torch, got {spec!r}: ranks of jax are devices of one process.")
    started: list[Rank] = []
    try:
        for rank in range(layout.world_size if processes is None else processes):
            started.append(
                _start(Setup(rank, layout, spec, plain_function, str(scratch / "store"), timeout_s, norm_type))
            )
        yield started
    finally:
        _end(started)


def tell(ranks: Sequence[Rank], message: Message) -> None:
    """Send a command to every rank; one that is gone is found out when its answer is waited for."""
    for each in ranks:
        with contextlib.suppress(OSError):
            os.write(each.commands.fileno(), frame(message))


def gather(
    ranks: Sequence[Rank],
    wanted: Sequence[str],
    seconds: float,
    *,
    alarm: Callable[[Message], bool] = lambda message: False,
    grace_s: float = 2.0,
) -> list[Message | None]:
    """Wait until every rank has said one of `wanted`, has ended, or time is up; None for those that did not.

    Once one rank has ended or said something that is alarming, the others get `grace_s` more.
    """
    found: dict[int, Message] = {}
    deadline = time.monotonic() + seconds
    alarmed = False
    while True:
        for each in ranks:
            _take(each, wanted, found)
        if all(each.rank in found or each.ended for each in ranks) or time.monotonic() >= deadline:
            return [found.get(each.rank) for each in ranks]
        if not alarmed and (any(each.ended for each in ranks) or any(map(alarm, found.values()))):
            alarmed, deadline = True, min(deadline, time.monotonic() + grace_s)
        _listen(ranks, deadline - time.monotonic())


def distrust(each: Rank, why: str) -> None:
    """End a rank whose channel was written to by someone else: nothing that it says can be believed any more."""
    each.stage = f"wrote to the harness's channel ({why})"[:LONGEST_STAGE]
    each.messages.clear()  # with the next stage that it says it reached
    each.process.kill()
    each.results.close()


def _take(each: Rank, wanted: Sequence[str], found: dict[int, Message]) -> None:
    while each.messages and each.rank not in found:
        message = each.messages.pop(0)
        if message.say in wanted:
            found[each.rank] = message
        elif message.say == "stage":
            each.stage = str(message.body)[:LONGEST_STAGE]


def _listen(ranks: Sequence[Rank], seconds: float) -> None:
    with selectors.DefaultSelector() as selector:
        for each in ranks:
            if not each.ended:
                selector.register(each.process.sentinel, selectors.EVENT_READ, (each, _note_end))
            for connection, react in ((each.results, _read_results), (each.log, _read_log)):
                if not connection.closed:
                    selector.register(connection, selectors.EVENT_READ, (each, react))
        for key, _ in selector.select(max(0.0, seconds)):
            each, react = key.data
            react(each)


def _note_end(each: Rank) -> None:
    # What it said before it ended may still lie in the pipes.
    for react in (_read_results, _read_log):
        for _ in range(1000):  # a child of its own may still be writing
            if not react(each):
                break
    each.process.join()
    each.ended = True


def _read_results(each: Rank) -> bool:
    data = _read(each.results)
    try:
        each.messages += each.inbox.take(data)
    except GarbledChannelError as error:
        distrust(each, str(error))
    return bool(data)


def _read_log(each: Rank) -> bool:
    data = _read(each.log)
    room = LOG_HEAD - len(each.head)
    each.head += data[:room]
    each.tail = (each.tail + data[room:])[-LOG_TAIL:]
    return bool(data)


def _read(connection: Connection) -> bytes:
    if connection.closed:  # by an earlier event of the same batch
        return b""
    try:
        data = os.read(connection.fileno(), 65536)
    except BlockingIOError:
        return b""
    if not data:
        connection.close()
    return data


def _start(setup: Setup) -> Rank:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["shardproof.audit.ranks.warm"])
    command_reader, command_writer = context.Pipe(duplex=False)
    result_reader, result_writer = context.Pipe(duplex=False)
    log_reader, log_writer = context.Pipe(duplex=False)
    process = context.Process(
        target=serve, args=(setup, command_reader, result_writer, log_writer), name=f"rank{setup.rank}"
    )
    with _without_main():
        process.start()
        _running.add(process.pid or 0)
    for theirs in (command_reader, result_writer, log_writer):
        theirs.close()
    for ours in (result_reader, log_reader):
        os.set_blocking(ours.fileno(), False)
    return Rank(setup.rank, process, command_writer, result_reader, log_reader)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    # multiprocessing makes every child run the parent's main module again. That costs each rank the import of
    # a command line, and would start a second audit from a script without an `if __name__` guard.
    with _main_lock:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def _end(ranks: Sequence[Rank]) -> None:
    holding = [each.log.fileno() for each in ranks if not each.log.closed]
    ours = {each.process.pid for each in ranks if each.process.pid}
    with _main_lock:  # a rank that is being started is nobody's stray
        left = strays.found(list(ours), holding, _forkserver(), _running - ours)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _running.difference_update(ours)
    for each in ranks:
        with contextlib.suppress(OSError):
            os.killpg(each.process.pid or 0, signal.SIGKILL)
        each.process.kill()
        each.process.join(END_S)
        if each.process.is_alive():
            _end_forkserver(each)
        for connection in (each.commands, each.results, each.log):
            connection.close()


def _end_forkserver(orphan: Rank) -> None:
    # The forkserver alone hears of its children's ends. One that a subject has stopped would be waited for without
    # an end, and start no rank any more; multiprocessing starts another one in its place.
    if pid := _forkserver():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        orphan.process.join(END_S)


def _forkserver() -> int | None:
    server = getattr(multiprocessing.forkserver, "_forkserver", None)
    return getattr(server, "_forkserver_pid", None)
