"""The kernel in Numba: vector code over memory in place, in as many threads as the caller allows."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from llvmlite.binding import get_host_cpu_features
from numba import config
from numpy.typing import NDArray

from shardproof.sums.kernels import numpy_kernel, scaling, sweeps
from shardproof.sums.kernels.counts import Counts
from shardproof.sums.kernels.formats import Format
from shardproof.sums.kernels.protocol import Largest, Order, Tally
from shardproof.sums.kernels.python_kernel import decoded, encoded
from shardproof.sums.kernels.tags import GROUP_BYTES, Tag
from shardproof.sums.kernels.threads import in_parallel

Integers = NDArray[np.int64]

# Parts are whole chunks of any format. Fewer values than _PART are added before another thread has begun.
_CHUNK: Final = 8192
_PART: Final = 1 << 17
# More parts than workers: one whose core is busy elsewhere takes fewer of them.
_PARTS_PER_WORKER: Final = 8


def tally(format: Format, addresses: Sequence[int], counts: Sequence[int], order: Order, threads: int) -> Tally:
    """The exact sum of |value|**order; see shardproof.sums.kernels.tally."""
    if not _has_instructions_for(format):
        return numpy_kernel.tally(format, addresses, counts, order, threads)
    if format.bits.size == 1:
        return _counted(format, addresses, counts, threads).tally(order)
    limbs, states = _swept(Tag(format, order), addresses, counts, threads, summing=True)
    return Tally(sum(map(_total, limbs)), sum(states[sweeps.NANS].tolist()), sum(states[sweeps.INFS].tolist()))


def largest(format: Format, addresses: Sequence[int], counts: Sequence[int], threads: int) -> Largest:
    """The largest magnitude; see shardproof.sums.kernels.largest."""
    if not _has_instructions_for(format):
        return numpy_kernel.largest(format, addresses, counts, threads)
    if format.bits.size == 1:
        return _counted(format, addresses, counts, threads).largest()
    _, states = _swept(Tag(format, 1), addresses, counts, threads, summing=False)
    magnitude = decoded(format, max(states[sweeps.LARGEST].tolist()))
    return Largest(magnitude, sum(states[sweeps.NANS].tolist()), sum(states[sweeps.INFS].tolist()))


powers = numpy_kernel.powers


def scale(format: Format, addresses: Sequence[int], counts: Sequence[int], factor: float, threads: int) -> None:
    """Scale in place; see shardproof.sums.kernels.scale."""
    if not _has_instructions_for(format):
        numpy_kernel.scale(format, addresses, counts, factor, threads)
        return
    shared = _shared(addresses, counts, threads)
    if format.bits.size == 1:
        replace, table = _cached(scaling.replace_bytes), _scaled_table(format, factor)
        shared.work(lambda worker, *span: replace(shared.addresses, shared.counts, *span, table))
    else:
        sweep, tag, buffers = (
            _cached(scaling.scale_sweep),
            Tag(format, 2),
            np.zeros((shared.workers, GROUP_BYTES), np.uint8),
        )
        shared.work(lambda worker, *span: sweep(tag, shared.addresses, shared.counts, *span, factor, buffers[worker]))


@cache
def _has_instructions_for(format: Format) -> bool:
    """Whether this CPU converts float16 itself; where it does not, LLVM calls a function that Numba does not have."""
    if format is not Format.FLOAT16:
        return True
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        named = config.CPU_FEATURES
        return "+f16c" in named if named is not None else get_host_cpu_features().get("f16c", False)
    return machine in ("aarch64", "arm64")


def _swept(
    tag: Tag, addresses: Sequence[int], counts: Sequence[int], threads: int, *, summing: bool
) -> tuple[Integers, Integers]:
    """The limbs and the states of all workers; a row of the states has one quantity of each worker."""
    shared, sweep = _shared(addresses, counts, threads), _cached(sweeps.sweep)
    limbs = np.zeros((shared.workers, sweeps.ROOM), np.int64)
    states = np.zeros((shared.workers, sweeps.STATE), np.int64)
    buffers = np.empty((shared.workers, sweeps.BUFFER_BYTES), np.uint8)
    shared.work(
        lambda worker, *span: sweep(
            tag, shared.addresses, shared.counts, *span, summing, limbs[worker], states[worker], buffers[worker]
        )
    )
    return limbs, states.T


def _total(limbs: Integers) -> int:
    """The integer that limbs in [0, 2**32) stand for."""
    return int.from_bytes(limbs.astype("<u4").tobytes(), "little")


def _counted(format: Format, addresses: Sequence[int], counts: Sequence[int], threads: int) -> Counts:
    shared, count = _shared(addresses, counts, threads), _cached(scaling.count_bytes)
    tables = np.zeros((shared.workers, 4, 256), np.int64)
    shared.work(lambda worker, *span: count(shared.addresses, shared.counts, *span, tables[worker]))
    found = tables.sum(axis=(0, 1))
    return Counts(format, found[:128] + found[128:], int(found[128]))


def _scaled_table(format: Format, factor: float) -> Integers:
    return np.array([encoded(format, decoded(format, pattern) * factor) for pattern in range(256)], np.int64)


@dataclass(frozen=True)
class Shared:
    """Pieces, and all their values, laid end to end, cut into parts that workers share."""

    addresses: Integers
    counts: Integers
    cuts: Sequence[int]
    workers: int

    def work(self, one: Callable[[int, int, int], Any]) -> None:
        """Call one(worker, begin, end) for every part."""
        parts = len(self.cuts) - 1
        in_parallel(lambda worker, part: one(worker, self.cuts[part], self.cuts[part + 1]), parts, self.workers)


def _shared(addresses: Sequence[int], counts: Sequence[int], threads: int) -> Shared:
    sizes = np.asarray(counts, np.int64)
    values = int(sizes.sum())
    step = max(_PART, values // (_PARTS_PER_WORKER * threads) // _CHUNK * _CHUNK) if threads > 1 else max(values, 1)
    cuts = [*range(0, values, step), values]
    return Shared(np.asarray(addresses, np.int64), sizes, cuts, max(1, min(threads, len(cuts) - 1)))


@cache
def _cached(function: Any) -> Any:
    """The same function, with its compiled code kept on disk where a folder for that can be written."""
    try:
        return sweeps.compiled(function.py_func, cache=True)
    except RuntimeError:  # no folder can be written: compile in each process
        return sweeps.compiled(function.py_func)
