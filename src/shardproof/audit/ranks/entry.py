"""Where a rank's process begins, kept apart so that the harness can name it without importing torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from multiprocessing.connection import Connection

from shardproof.audit.layouts import Layout


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
    from shardproof.audit.ranks import worker

    worker.serve(setup, commands, results)
