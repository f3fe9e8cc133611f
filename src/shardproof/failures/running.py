"""Many programs through `isolation`, few at a time: the one place that decides how they are run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from shardproof.isolation import Limits, Run, run_isolated
from shardproof.records.isolation import Level

Token = TypeVar("Token")


def run_all(
    programs: Iterable[tuple[Token, bytes]], *, level: Level, jobs: int, limits: Limits | None = None
) -> Iterator[tuple[Token, Run]]:
    """Run programs, at most `jobs` at a time, and yield each as it ends; `programs` is taken from as room is free.

    Args:
        programs: a token that says which one it is, and the exact bytes to run.
        level: how they are held.
        jobs: programs that run at the same time.
        limits: what each may use.

    Raises:
        IsolationUnavailableError: the level cannot be had here.
    """
    pool = ThreadPoolExecutor(jobs)
    waiting: dict[Future[Run], Token] = {}
    try:
        for token, source in programs:
            waiting[pool.submit(run_isolated, source, level=level, limits=limits)] = token
            if len(waiting) >= 2 * jobs:
                yield from _ended(waiting)
        while waiting:
            yield from _ended(waiting)
    finally:
        pool.shutdown(cancel_futures=True)


def _ended(waiting: dict[Future[Run], Token]) -> Iterator[tuple[Token, Run]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()
