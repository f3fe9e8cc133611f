"""One gradient, cut in 200 random ways: the norm and every clipped element have the same bits each time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest

from shardproof.clip import factor_of_sum
from shardproof.sums import ExactSum
from shardproof.sums.kernels import Format, Kernel, Tally, load_kernel, scale, tally

FORMATS = [
    Format.FLOAT64,
    Format.FLOAT32,
    Format.FLOAT16,
    Format.BFLOAT16,
    Format.FLOAT8_E5M2,
    Format.FLOAT8_E4M3FN,
]
KERNELS = ["numpy", "numba"] if find_spec("numba") else ["numpy"]
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
LIMIT = 1.0


@dataclass(frozen=True)
class Cut:
    """Ranks, each with shards (start, stop) in the order in which it holds them; all shards cover all values."""

    ranks: list[list[tuple[int, int]]]
    merge_order: list[int]
    kernels: list[Kernel]
    threads: list[int]


def gradient(format: Format, count: int) -> np.ndarray:
    """Patterns of a gradient as training makes them: scales that differ by rows, zeros, a few tiny values."""
    generator = np.random.default_rng(7)
    if format is Format.FLOAT8_E4M3FN:
        # Every finite pattern, both signs; NumPy has no such type to convert to.
        return generator.integers(0, 0x7F, count).astype(np.uint8) | generator.choice([0, 0x80], count).astype(np.uint8)
    values = (
        generator.standard_normal(count) * np.exp2(generator.integers(-12, 0, count // 100 + 1)).repeat(100)[:count]
    )
    values[generator.integers(0, count, count // 50)] = 0.0
    values[generator.integers(0, count, count // 500)] *= 2.0**-20
    kind = {8: np.float64, 4: np.float32, 2: np.float16, 1: np.float16}[format.bits.size]
    if format is Format.BFLOAT16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    patterns = values.astype(kind).view(np.uint16 if kind is np.float16 else WORDS[format.bits.size])
    return (patterns >> 8).astype(np.uint8) if format is Format.FLOAT8_E5M2 else patterns


def random_cut(generator: random.Random, count: int, kernels: list[str]) -> Cut:
    """Any number of ranks and of shards, of any size, empty ones among them, dealt out and ordered at random."""
    ranks = generator.randint(1, 9)
    edges = sorted(generator.choices(range(count + 1), k=generator.choice([0, 1, 3, 20, 300])))
    shards = list(zip([0, *edges], [*edges, count], strict=True))
    generator.shuffle(shards)
    dealt: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    for shard in shards:
        generator.choice(dealt).append(shard)
    return Cut(
        dealt,
        generator.sample(range(ranks), ranks),
        [load_kernel(generator.choice(kernels)) for _ in range(ranks)],
        [generator.randint(1, 5) for _ in range(ranks)],
    )


def clipped(format: Format, patterns: np.ndarray, cut: Cut) -> tuple[Tally, float, np.ndarray]:
    """The total, the norm and the clipped gradient, each rank working on a copy of its own shards only."""
    held = [[patterns[start:stop].copy() for start, stop in shards] for shards in cut.ranks]
    where = [([shard.ctypes.data for shard in shards], [shard.size for shard in shards]) for shards in held]
    total = Tally()
    for rank in cut.merge_order:
        total = total.merge(tally(cut.kernels[rank], format, *where[rank], 2, cut.threads[rank]))
    factor = factor_of_sum(ExactSum(total.total), LIMIT)
    for rank, (addresses, counts) in enumerate(where):
        scale(cut.kernels[rank], format, addresses, counts, factor, cut.threads[rank])
    result = np.empty_like(patterns)
    for shards, values in zip(cut.ranks, held, strict=True):
        for (start, stop), shard in zip(shards, values, strict=True):
            result[start:stop] = shard
    return total, ExactSum(total.total).root(), result


@pytest.mark.parametrize("format", FORMATS)
def test_two_hundred_cuts_of_a_large_gradient(format):
    # Large enough that several threads really share the work.
    patterns, generator = gradient(format, 600_000), random.Random(11)
    whole = Cut([[(0, patterns.size)]], [0], [load_kernel("numpy")], [1])
    total, norm, result = clipped(format, patterns, whole)
    assert norm > LIMIT
    assert (result != patterns).any()
    for _ in range(200):
        found = clipped(format, patterns, random_cut(generator, patterns.size, KERNELS))
        assert found[0] == total
        assert found[1].hex() == norm.hex()
        assert (found[2] == result).all()


def test_two_hundred_cuts_with_the_python_kernel_among_them():
    patterns, generator = gradient(Format.FLOAT32, 3_000), random.Random(12)
    whole = Cut([[(0, patterns.size)]], [0], [load_kernel("python")], [1])
    total, norm, result = clipped(Format.FLOAT32, patterns, whole)
    for _ in range(200):
        found = clipped(Format.FLOAT32, patterns, random_cut(generator, patterns.size, ["python", *KERNELS]))
        assert found[0] == total
        assert found[1].hex() == norm.hex()
        assert (found[2] == result).all()


def test_a_floating_point_sum_would_be_told_from_an_exact_one():
    """The comparison has teeth: sums of float64 squares differ between the same cuts."""
    values = gradient(Format.FLOAT32, 3_000).view(np.float32).astype(np.float64)
    generator = random.Random(12)
    norms = set()
    for _ in range(200):
        cut = random_cut(generator, values.size, ["numpy"])
        sums = [sum(float((values[start:stop] ** 2).sum()) for start, stop in shards) for shards in cut.ranks]
        norms.add(sum(sums[rank] for rank in cut.merge_order))
    assert len(norms) > 1
