"""What holds of the NumPy kernel alone: bounded memory, and a flush of its rows before they overflow."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from tests.sums.kernels.memory import Pieces, check_tally
from tests.sums.kernels.patterns import random_patterns

from shardproof.sums.kernels import Format, load_kernel, numpy_kernel, scale, tally

KERNEL = load_kernel("numpy")


@pytest.mark.parametrize("format", list(Format))
def test_extra_memory_stays_below_a_mebibyte(format):
    values = np.zeros(8_000_000, np.uint8)
    arguments = (format, [values.ctypes.data], [values.size // format.bits.size])
    tally(KERNEL, format, [0], [0], 2)
    tracemalloc.start()
    try:
        tally(KERNEL, *arguments, 2)
        scale(KERNEL, *arguments, 0.5)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("format", [Format.FLOAT64, Format.FLOAT32])
def test_rows_are_flushed_in_time_and_nothing_is_lost(format, monkeypatch):
    monkeypatch.setattr(numpy_kernel, "_FLUSH", 2)
    check_tally(KERNEL, Pieces(format, [random_patterns(format, 5 * numpy_kernel.CHUNK[format.bits.size] + 3)]), 2)


def test_a_row_holds_as_much_as_the_comment_says():
    # The largest digit, in every value of a chunk, for as many chunks as lie between two flushes.
    largest_digit = (1 << 28) - 1
    chunk = max(numpy_kernel.CHUNK.values())
    assert largest_digit * chunk < 1 << 53
    assert largest_digit * chunk * numpy_kernel._FLUSH < 1 << 63
