"""Many programs through `isolation`, few at a time: the one place that decides how they are run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from shardproof.failures.cluster import run_on_cluster
from shardproof.isolation import Limits, Run, run_many
from shardproof.records.isolation import Level

Token = TypeVar("Token")


def run_all(
    programs: Iterable[tuple[Token, bytes]],
    *,
    level: Level,
    jobs: int,
    limits: Limits | None = None,
    repeated: bool = False,
    scheduler: str | None = None,
) -> Iterator[tuple[Token, Run]]:
    """Run programs, at most `jobs` at a time, and yield each as it ends; `programs` is taken from as room is free.

    Args:
        programs: a token that says which one it is, and the exact bytes to run.
        level: how they are held.
        jobs: programs that run at the same time.
        limits: what each may use.
        repeated: each program comes several times, to see whether it always does the same.
        scheduler: the Dask cluster that runs them, in place of this machine; it decides how many at a time.

    Raises:
        ClusterError: the cluster cannot be used.
        IsolationUnavailableError: the level cannot be had here.
    """
    if scheduler is not None:
        yield from run_on_cluster(programs, scheduler=scheduler, level=level, limits=limits, repeated=repeated)
        return
    # Programs forked from one interpreter share its hash seed: repeats would agree where fresh ones differ.
    yield from run_many(programs, level=level, jobs=jobs, limits=limits, apart=repeated)
