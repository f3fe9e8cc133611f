"""The judge has teeth: each kernel here is wrong in one way that has been seen, and is rejected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from tests.sums.kernels.memory import Pieces, check_scale, check_tally
from tests.sums.kernels.patterns import corner_patterns, random_patterns, streams, within

from shardproof.sums import ExactSum
from shardproof.sums.kernels import Format, Kernel, Tally, load_kernel

RIGHT = load_kernel("numpy")
PYTHON = load_kernel("python")


def pieces_to_sum() -> Iterator[Pieces]:
    """What every kernel's tally is tried on here; the tests of the kernels try more."""
    for format in (Format.FLOAT32, Format.BFLOAT16):
        yield Pieces(format, [corner_patterns(format)])
        yield Pieces(format, [within(format, 2500, 60, 64), within(format, 31, 60, 64)])
        yield Pieces(format, [streams(format)["wide"]])


def pieces_to_scale() -> Iterator[Pieces]:
    """What every kernel's scaling is tried on here."""
    for format in (Format.FLOAT32, Format.BFLOAT16, Format.FLOAT16):
        yield Pieces(format, [corner_patterns(format), random_patterns(format, 200)])
    yield Pieces(Format.BFLOAT16, [[0x3F80]])


def values(format, addresses, counts):
    for address, count in zip(addresses, counts, strict=True):
        for _, chunk in PYTHON._piece(format, address, count):
            yield from chunk


def adds_in_float64(format, addresses, counts, order, threads):
    right = RIGHT.tally(format, addresses, counts, order, threads)
    total = math.fsum(abs(v) ** order for v in values(format, addresses, counts) if math.isfinite(v) and abs(v) < 1e100)
    return Tally(ExactSum.of_magnitudes([total]).total, right.nans, right.infs)


def leaves_out_the_last_value(format, addresses, counts, order, threads):
    return RIGHT.tally(format, addresses, [max(count - 1, 0) for count in counts], order, threads)


def adds_a_piece_twice(format, addresses, counts, order, threads):
    return RIGHT.tally(format, [*addresses, addresses[-1]], [*counts, counts[-1]], order, threads)


def flushes_subnormals(format, addresses, counts, order, threads):
    right = RIGHT.tally(format, addresses, counts, order, threads)
    finite = [v for v in values(format, addresses, counts) if math.isfinite(v) and abs(v) >= 2.0**-126]
    return Tally(ExactSum.of_squares(finite).total, right.nans, right.infs)


def counts_infinities_as_nan(format, addresses, counts, order, threads):
    right = RIGHT.tally(format, addresses, counts, order, threads)
    return Tally(right.total, right.nans + right.infs, 0)


def writes_while_reading(format, addresses, counts, order, threads):
    right = RIGHT.tally(format, addresses, counts, order, threads)
    RIGHT.scale(format, addresses, counts, 0.5, threads)
    return right


TALLIES = [
    adds_in_float64,
    leaves_out_the_last_value,
    adds_a_piece_twice,
    flushes_subnormals,
    counts_infinities_as_nan,
    writes_while_reading,
]


@pytest.mark.parametrize("wrong", TALLIES)
def test_a_wrong_tally_is_rejected(wrong):
    assert rejected_by_tally(SimpleNamespace(tally=wrong))
    assert not rejected_by_tally(RIGHT)


def rejected_by_tally(kernel: Kernel) -> bool:
    return any(fails(check_tally, kernel, pieces, 2) for pieces in pieces_to_sum())


def rounds_twice(format, addresses, counts, factor, threads):
    """By way of float32, as a conversion from float64 to a short format often goes."""
    for address, count in zip(addresses, counts, strict=True):
        for words in PYTHON_WORDS(format, address, count):
            wide = RIGHT._values(format, words)
            with np.errstate(all="ignore"):
                once = (wide * factor).astype(np.float32)
            words[...] = from_float32(format, once, words)


def multiplies_by_a_short_factor(format, addresses, counts, factor, threads):
    with np.errstate(all="ignore"):
        RIGHT.scale(format, addresses, counts, min(float(np.float32(factor)), 1.0), threads)


def loses_the_sign_of_zero(format, addresses, counts, factor, threads):
    RIGHT.scale(format, addresses, counts, factor, threads)
    for address, count in zip(addresses, counts, strict=True):
        for words in PYTHON_WORDS(format, address, count):
            words[words == format.bits.magnitude_mask + 1] = 0


def writes_past_the_end(format, addresses, counts, factor, threads):
    RIGHT.scale(format, addresses, [count + 1 for count in counts], factor, threads)


PYTHON_WORDS = RIGHT._piece


def from_float32(format, once, words):
    if format is Format.BFLOAT16:
        pattern = once.view(np.uint32)
        rounded = (pattern + np.uint32(0x7FFF) + ((pattern >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        return np.where(np.isnan(once), np.uint32(0x7FC0) | pattern >> np.uint32(16), rounded).astype(words.dtype)
    with np.errstate(all="ignore"):
        return once.astype(format.value).view(words.dtype)


SCALES = [rounds_twice, multiplies_by_a_short_factor, loses_the_sign_of_zero, writes_past_the_end]


@pytest.mark.parametrize("wrong", SCALES)
def test_a_wrong_scale_is_rejected(wrong):
    assert rejected_by_scale(SimpleNamespace(scale=wrong))
    assert not rejected_by_scale(RIGHT)


def rejected_by_scale(kernel: Kernel) -> bool:
    # The second factor lands just above a tie of bfloat16.
    factors = (1 / 3, 0.5 + 2**-9 + 2**-40)
    return any(fails(check_scale, kernel, pieces, factor) for factor in factors for pieces in pieces_to_scale())


def fails(check, *arguments) -> bool:
    try:
        check(*arguments)
    except AssertionError:
        return True
    return False
