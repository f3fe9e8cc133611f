"""What a rank's process does: build the layout, import the subject, and call it when the harness says so.

Between two calls no collective is used: the harness keeps the ranks in step over pipes, so that one call's
mistake cannot reach into the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import select
import signal
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from shardproof.audit import control
from shardproof.audit.context import Context
from shardproof.audit.layouts import shares, tied
from shardproof.audit.layouts.build import Built, LayoutUnavailableError, build, set_gradient
from shardproof.audit.observing import Before, described, last_lines, resolved, seen_after, seen_before, summary
from shardproof.audit.ranks.channel import Message, receive, send
from shardproof.audit.ranks.entry import Setup
from shardproof.audit.subjects import Clip, find, load, outside
from shardproof.records.audit import Call, FixturePlan, Piece

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# As gloo and the stores say it: a subject may raise errors of its own that speak of timeouts.
_TIMEOUT = re.compile(r"gloo.*?(timed out|timeout|connection (closed|reset) by peer)|\bwait timeout\b", re.I | re.S)
_LOOPBACK = ("lo", "lo0")


Say = Callable[[Message], None]


def serve(setup: Setup, commands: Connection, results: Connection) -> None:
    """Join the others, then do what the harness says until it ends this process."""
    die_with_harness(commands.fileno())
    say = _only_from_here(results.fileno())
    try:
        built = _join(setup)
    except LayoutUnavailableError as error:
        say(Message("unavailable", str(error)))
    except Exception as error:
        say(Message("broken", last_lines(error)))
    else:
        say(Message("built", [piece.model_dump(mode="json") for piece in _pieces(built)]))
        _work(setup, built, commands.fileno(), say)
    # The harness ends every rank at the same time: a rank that left early would close connections that
    # others still use, and interpreter shutdown could hang on the subject's threads.
    signal.pause()


def _work(setup: Setup, built: Built, commands: int, say: Say) -> None:
    context = _context(setup, built)
    try:
        subject = find(setup.spec) if setup.plain_function else _subject(setup, context, say)
    except BaseException as error:
        say(Message("import failed", last_lines(error)))
        return
    if subject is None:
        return
    say(Message("loaded"))
    answer: Any = None
    call: Call | None = None
    while command := receive(commands):
        if command.say == "call":
            fixture = FixturePlan.model_validate(command.body)
            call, answer = _call(subject, built, context, fixture, say)
            say(Message("called", call.model_dump(mode="json")))
        elif command.say == "resolve" and call is not None and call.returned is not None:
            call = call.model_copy(update={"returned": resolved(answer, call.returned)})
            say(Message("resolved", call.model_dump(mode="json")))
        elif command.say == "function":
            say(_function(subject, built, context, command.body))


def _subject(setup: Setup, context: Context, say: Say) -> Clip | None:
    """The subject, ready to be called; None where it says that it is not made for this cell."""
    loaded = load(setup.spec, sorted({tensor.dtype for tensor in setup.layout.tensors}))
    if reason := outside(loaded.capabilities, setup.layout, setup.norm_type):
        say(Message("outside", reason))
        return None
    if loaded.build is not None:
        loaded.build(context)
    return loaded.clip


def _call(clip: Clip, built: Built, context: Context, fixture: FixturePlan, say: Say) -> tuple[Call, Any]:
    params = _give_gradients(built, fixture, context.rank)
    before = seen_before(built.entries)
    told = dataclasses.replace(context, limit=fixture.limit, norm_type=fixture.norm_type)
    # A subject could import the control; it knows the whole gradient only while it is the one that is run.
    control.tell(fixture.gradients if clip is control.clip else {})
    say(Message("stage", "in the call"))
    try:
        answer = clip(params, fixture.limit, told)
    except BaseException as error:
        return _raised(built, fixture, before, error), None
    say(Message("stage", "reading what it returned"))
    returned = described(answer)
    say(Message("stage", "reading the gradients"))
    slices = tuple(seen_after(built.entries, before))
    return Call(fixture=fixture.name, outcome="returned", stage="done", returned=returned, slices=slices), answer


def _raised(built: Built, fixture: FixturePlan, before: Before, error: BaseException) -> Call:
    return Call(
        fixture=fixture.name,
        outcome="collective timeout" if _is_timeout(error) else "raised",
        stage="in the call",
        error=summary(error),
        traceback=last_lines(error),
        slices=tuple(seen_after(built.entries, before)),
    )


def _function(work: Any, built: Built, context: Context, body: Any) -> Message:
    fixture = FixturePlan.model_validate(body["fixture"])
    _give_gradients(built, fixture, context.rank)
    try:
        value = work(dataclasses.replace(context, limit=fixture.limit), *body["arguments"])
    except BaseException as error:
        return Message("raised", last_lines(error, lines=20))
    return Message("value", value)


def _give_gradients(built: Built, fixture: FixturePlan, rank: int) -> list[torch.Tensor]:
    for entry in built.entries:
        whole = fixture.gradients[entry.tensor.name]
        absent = rank in fixture.absent.get(entry.tensor.name, ())
        set_gradient(entry, None if absent else [whole[index] for index in entry.indices])
    return [entry.parameter for entry in built.entries]


def _join(setup: Setup) -> Built:
    torch.set_num_threads(1)
    present = {name for _, name in socket.if_nameindex()}
    for name in present.intersection(_LOOPBACK):
        # gloo asks for the host's own name otherwise, which need not resolve.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
    world = setup.layout.world_size
    os.environ.update(RANK=str(setup.rank), LOCAL_RANK=str(setup.rank), WORLD_SIZE=str(world))
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(setup.store, world),  # type: ignore[attr-defined]
        rank=setup.rank,
        world_size=world,
        timeout=timedelta(seconds=setup.timeout_s),
    )
    return build(setup.layout, setup.rank, setup.timeout_s)


def _pieces(built: Built) -> list[Piece]:
    return [
        Piece(
            entry=entry.name,
            tensor=entry.tensor.name,
            kind=type(entry.parameter).__name__ if not hasattr(entry.parameter, "device_mesh") else "DTensor",
            indices=entry.indices,
            padding=entry.padding,
        )
        for entry in built.entries
    ]


def _context(setup: Setup, built: Built) -> Context:
    held = shares(setup.layout, setup.rank)
    return Context(
        model=built.model,
        rank=setup.rank,
        world_size=setup.layout.world_size,
        layout=setup.layout.name,
        mesh=built.mesh,
        axes=dict(setup.layout.axes),
        names=tuple(entry.name for entry in built.entries),
        placements=tuple(share.placements for share in held),
        limit=float("inf"),
        norm_type=setup.norm_type,
        groups=built.groups,
        params=tuple(entry.parameter for entry in built.entries),
        tied=tied(setup.layout),
        owned={share.entry: share.owned for share in held if share.owned is not None},
    )


def _only_from_here(fd: int) -> Say:
    owner = os.getpid()

    def say(message: Message) -> None:
        if os.getpid() != owner:
            # The subject forked and its child came back from the call: it is no rank and has nothing to say.
            os._exit(0)
        send(fd, message)

    return say


def _is_timeout(error: BaseException | None) -> bool:
    for _ in range(10):
        if error is None:
            return False
        if isinstance(error, RuntimeError) and _TIMEOUT.search(summary(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def die_with_harness(commands: int) -> None:
    """End this process and its children when the harness is gone, however that went."""

    def watch() -> None:
        poll = select.poll()
        poll.register(commands, 0)  # 0: only that the other end was closed
        poll.poll()
        with contextlib.suppress(OSError):
            os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="shardproof-harness-watch").start()
