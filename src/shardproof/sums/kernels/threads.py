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


def in_parallel(work: Callable[[int], Any], parts: int) -> None:
    """Call work(0) ... work(parts - 1) at the same time, the first in the calling thread; raises what they raise."""
    if parts == 1:
        work(0)
        return
    rest = [_pool(parts - 1).submit(work, part) for part in range(1, parts)]
    try:
        work(0)
    finally:
        # The pieces' memory must not be freed while a thread still reads it.
        errors = [future.exception() for future in rest]
    for error in errors:
        if error is not None:
            raise error
