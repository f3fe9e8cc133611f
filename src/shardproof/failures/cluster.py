"""Programs run by the workers of a Dask cluster, a batch at a time; the extra `dask` brings what it needs."""

from __future__ import annotations

import itertools
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeVar

from shardproof.errors import InvalidValueError, ShardproofError
from shardproof.isolation import Limits, Run, run_lost, run_many
from shardproof.records.isolation import Level

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

Token = TypeVar("Token")
BATCH = 24
"""Programs of one task: a fraction of a second, so that the overhead of a task and of its nursery is small in it."""
ADDRESS = re.compile(r"([a-z]+://)?[^/\s]+:[0-9]{1,5}")
CONNECT_S = 20.0
"""How long the scheduler may take to answer, and then to have a worker."""


class ClusterError(ShardproofError, RuntimeError):
    """The cluster cannot be used: not there, without workers, gone on the way, or of other versions than ours."""


def run_on_cluster(
    programs: Iterable[tuple[Token, bytes]],
    *,
    scheduler: str,
    level: Level,
    limits: Limits | None = None,
    repeated: bool = False,
) -> Iterator[tuple[Token, Run]]:
    """Run programs on a cluster and yield each once; `programs` is taken from as the cluster has room.

    A batch whose worker is lost is run again by Dask on another one; one that loses worker after worker is given up,
    and its programs have ended as `supervisor lost`.

    Args:
        programs: a token that says which one it is, and the exact bytes to run; tokens stay here.
        scheduler: the address of a Dask scheduler, such as tcp://host:8786.
        level: how the workers hold them.
        limits: what each may use.
        repeated: each program comes several times, to see whether it always does the same.

    Raises:
        InvalidValueError: `scheduler` is no address.
        ClusterError: the cluster cannot be used, or a worker's Python or shardproof is not ours.
        IsolationUnavailableError: a worker cannot have the level.
    """
    client = _connect(scheduler)
    try:
        yield from _stream(client, _batches(programs), level, limits or Limits(), repeated)
    finally:
        client.close()


def run_batch(
    sources: Sequence[bytes], level: Level, limits: Limits, repeated: bool
) -> tuple[tuple[str, ...], list[Run]]:
    """What a worker does: who it is, and the runs in the order of `sources`."""
    runs = dict(run_many(enumerate(sources), level=level, limits=limits, apart=repeated))
    return identity(), [runs[number] for number in range(len(sources))]


def identity() -> tuple[str, ...]:
    """What has to be the same here and on every worker, for a result to be of the interpreter that it names."""
    try:
        own = version("shardproof")
    except PackageNotFoundError:
        own = "not installed"
    return platform.python_implementation(), platform.python_version(), platform.machine(), f"shardproof {own}"


def _connect(scheduler: str) -> Client:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"Expected Dask's distributed for --scheduler {scheduler}, got none: pip install 'shardproof[dask]'."
        ) from error
    if not ADDRESS.fullmatch(scheduler):
        # Dask would find that out with its client half made.
        raise InvalidValueError(f"Expected a scheduler as in tcp://host:8786, got {scheduler!r}.")
    try:
        client = Client(scheduler, timeout=CONNECT_S, set_as_default=False)
    except OSError as error:
        raise ClusterError(f"Expected a Dask scheduler at {scheduler!r}, got none: {error}.") from error
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError as error:
        client.close()
        raise ClusterError(f"Expected workers at {scheduler!r}, got none within {CONNECT_S:g} s.") from error
    return client


def _batches(programs: Iterable[tuple[Token, bytes]]) -> Iterator[list[tuple[Token, bytes]]]:
    left = iter(programs)
    while batch := list(itertools.islice(left, BATCH)):
        yield batch


def _stream(
    client: Client, batches: Iterable[list[tuple[Token, bytes]]], level: Level, limits: Limits, repeated: bool
) -> Iterator[tuple[Token, Run]]:
    from distributed import as_completed

    room = 2 * sum(client.nthreads().values())
    coming, tokens = as_completed(loop=client.loop), dict[str, list[Token]]()
    for batch in batches:
        sources = [source for _, source in batch]
        # Not pure: Dask would give two equal batches one result.
        future = client.submit(run_batch, sources, level, limits, repeated, pure=False)
        tokens[future.key] = [token for token, _ in batch]
        coming.add(future)
        if len(tokens) >= room:
            yield from _next(coming, tokens, level, limits)
    while tokens:
        yield from _next(coming, tokens, level, limits)


def _next(
    coming: as_completed, tokens: dict[str, list[Token]], level: Level, limits: Limits
) -> Iterator[tuple[Token, Run]]:
    """The runs of the next batch that has ended."""
    future = next(coming)
    of = tokens.pop(future.key)
    yield from zip(of, _runs(future, len(of), level, limits), strict=True)


def _runs(future: Future, count: int, level: Level, limits: Limits) -> list[Run]:
    from distributed import CancelledError, KilledWorker

    try:
        who, runs = future.result()
    except KilledWorker as error:
        said = f"every worker that ran its batch was lost, the last at {error.last_worker.address}"
        return [run_lost(said, level=level, limits=limits)] * count
    except (CancelledError, OSError) as error:
        raise ClusterError(f"Expected the scheduler to stay, got {type(error).__name__}: {error}.") from error
    if tuple(who) != identity():
        raise ClusterError(f"Expected workers with {', '.join(identity())}, got one with {', '.join(who)}.")
    return list(runs)
