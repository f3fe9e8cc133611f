"""A thread pool of our own: kernels release the GIL, and Numba's parallel runtime does not survive a fork."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="shardproof-sums")


# A forked child has the pool object but not its threads: work handed to it would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def in_parallel(work: Callable[[int, int], Any], parts: int, workers: int) -> None:
    """Call work(worker, part) for every part; each worker takes the next part when it has done one.

    Worker 0 is the calling thread. Returns when all have ended, and raises what one of them raised.
    """
    left = iter(range(parts))  # next() on it holds the GIL, so that no part is taken twice

    def run(worker: int) -> None:
        for part in left:
            work(worker, part)

    others = [_pool(workers - 1).submit(run, worker) for worker in range(1, workers)]
    try:
        run(0)
    finally:
        # The pieces' memory must not be freed while a thread still reads it.
        errors = [future.exception() for future in others]
    for error in errors:
        if error is not None:
            raise error
