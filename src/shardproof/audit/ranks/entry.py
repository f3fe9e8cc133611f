"""Where a rank's process begins, kept apart so that the harness can name it without importing torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection

from shardproof.audit.layouts import Layout
from shardproof.audit.ranks import strays


@dataclass(frozen=True)
class Setup:
    """What a rank is started with; spec is the subject's, or that of a function for `on_every_rank`."""

    rank: int
    layout: Layout
    spec: str
    plain_function: bool
    store: str
    timeout_s: float
    norm_type: float = 2.0


def serve(setup: Setup, commands: Connection, results: Connection, log: Connection) -> None:
    """Be rank `setup.rank` until the harness ends this process.

    Its own session, so that the harness can end all that it starts; its own log, before anything can print.
    """
    os.setsid()
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    _forget_what_ranks_share()
    strays.adopt_orphans()
    from shardproof.audit.subjects import framework_of

    if framework_of(setup.spec) == "jax" and not setup.plain_function:
        from shardproof.audit.ranks import jax_worker

        jax_worker.serve(setup, commands, results)
        return
    from shardproof.audit.ranks import worker

    worker.serve(setup, commands, results)


def _forget_what_ranks_share() -> None:
    # multiprocessing gives every child a pipe to the forkserver and one to its resource tracker; both end when
    # they are written to, and with them all ranks of this cell. A child that needs one starts its own.
    for owner, name in (
        (getattr(forkserver, "_forkserver", None), "_forkserver_alive_fd"),
        (getattr(resource_tracker, "_resource_tracker", None), "_fd"),
    ):
        fd = getattr(owner, name, None)
        if fd is not None:
            os.close(fd)
            setattr(owner, name, None)
