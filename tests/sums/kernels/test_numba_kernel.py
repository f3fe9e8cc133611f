"""What holds of the Numba kernel alone: threads, forks, the disk cache, the CPU's modes, and carries."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest
from tests.sums.kernels.memory import Pieces, check_scale, check_tally, expected_tally
from tests.sums.kernels.patterns import streams, within

from shardproof.sums.grid import from_limbs
from shardproof.sums.kernels import Format, largest, load_kernel, scale, tally

if find_spec("numba") is None:
    pytest.skip("numba is not installed", allow_module_level=True)

from shardproof.sums.kernels import numba_kernel, sweeps, tags, threads, windows
from shardproof.sums.kernels.vectors import SCHEMES

KERNEL = load_kernel("numba")
REFERENCE = load_kernel("numpy")
VECTOR_FORMATS = [Format.FLOAT64, Format.FLOAT32, Format.FLOAT16, Format.BFLOAT16]


@pytest.mark.parametrize("format", list(Format))
@pytest.mark.parametrize("count", [2, 3, 5])
def test_threads_that_really_share_the_work(format, count):
    many = (within(format, 1000, 1, 6) * 700)[: count * numba_kernel._PART + 77]
    pieces = Pieces(format, [many[:5], many[5:100_000], [], many[100_000:]], offset=3)
    assert numba_kernel._shared(pieces.addresses, pieces.counts, count).workers == count
    check_tally(KERNEL, pieces, 2, count)
    assert largest(KERNEL, *pieces.arguments, count) == largest(REFERENCE, *pieces.arguments)
    check_scale(KERNEL, pieces, 1 / 3, count)


@pytest.mark.parametrize("format", VECTOR_FORMATS)
@pytest.mark.parametrize("order", [1, 2])
def test_tallies_at_the_same_time_do_not_meet(format, order):
    pieces = Pieces(format, [streams(format)["wide"]])
    expected, found = expected_tally(format, pieces.pieces, order), []
    workers = [
        threading.Thread(target=lambda: found.extend(tally(KERNEL, *pieces.arguments, order) for _ in range(20)))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [expected] * 80


def test_every_part_is_done_once_and_workers_meet():
    together, done = threading.Barrier(3, timeout=60), []

    def work(worker: int, part: int) -> None:
        if part < 3:
            together.wait()  # ends only when three workers have a part at the same time
        done.append((worker, part))

    threads.in_parallel(work, 20, 3)
    assert sorted(part for _, part in done) == list(range(20))
    assert {worker for worker, _ in done} == {0, 1, 2}


def test_an_error_in_a_thread_is_raised_after_all_have_ended():
    together, ended = threading.Barrier(3, timeout=60), []

    def work(worker: int, part: int) -> None:
        together.wait()
        if worker == 1:
            raise MemoryError
        ended.append(worker)

    with pytest.raises(MemoryError):
        threads.in_parallel(work, 3, 3)
    assert sorted(ended) == [0, 2]


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_gets_threads_of_its_own():
    """Were the parent's pool used in the child, the work would wait for ever; the time limit catches that."""
    program = """
import os, warnings
import numpy as np
from shardproof.sums.kernels import Format, load_kernel, tally
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork with threads, which is the point
values = np.ones(400_000, np.float32)
arguments = (load_kernel("numba"), Format.FLOAT32, [values.ctypes.data], [values.size], 2, 3)
before = tally(*arguments)
child = os.fork()
if child == 0:
    os._exit(0 if tally(*arguments) == before else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


@pytest.mark.processes
def test_without_a_folder_for_compiled_code_it_still_works(tmp_path):
    """Numba refuses to cache where it can write nowhere; the kernel then compiles in memory."""
    program = """
import numpy as np
from numba.core.caching import CacheImpl
CacheImpl._locator_classes = []
from shardproof.sums.kernels import Format, load_kernel, scale
values = np.ones(100, np.float32)
scale(load_kernel("numba"), Format.FLOAT32, [values.ctypes.data], [values.size], 0.5)
assert (values == 0.5).all()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


@pytest.mark.processes
def test_compiled_code_comes_back_from_disk(tmp_path):
    program = """
import numpy as np
from shardproof.sums.kernels import Format, load_kernel, scale
from shardproof.sums.kernels import numba_kernel, scaling
values = np.ones(100, np.float32)
scale(load_kernel("numba"), Format.FLOAT32, [values.ctypes.data], [values.size], 0.5)
print(sum(numba_kernel._cached(scaling.scale_sweep).stats.cache_hits.values()))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    hits = [
        int(subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True).stdout)
        for _ in range(2)
    ]
    assert hits == [0, 1]


@pytest.mark.parametrize("format", VECTOR_FORMATS)
def test_tallies_are_exact_where_the_cpu_flushes_subnormals(format):
    """torch.set_flush_denormal changes how the calling thread computes, and vector code with it."""
    torch = pytest.importorskip("torch")
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush subnormals")
    try:
        flushing = float(np.float64(5e-324) * 1.0) == 0.0
        for name in ("subnormals", "wide", "any pattern", "all the smallest"):
            pieces = Pieces(format, [streams(format)[name]])
            expected = expected_pure(pieces)
            assert tally(KERNEL, *pieces.arguments, 2) == expected, name
    finally:
        torch.set_flush_denormal(False)
    assert flushing


def expected_pure(pieces):
    """The judge uses integers and fractions only, so the CPU's mode does not reach it."""
    return expected_tally(pieces.format, pieces.pieces, 2)


@pytest.mark.parametrize("format", VECTOR_FORMATS)
def test_the_window_of_the_fast_pass_is_exactly_as_wide_as_stated(format):
    """A chunk that just fits is added by the fast pass; one binade more of spread, and it is refused."""
    n = windows.numbers_of(SCHEMES[format, 2])
    widest = (n.span - 2 * n.mantissa - 3) // 2
    high = min(n.bias, n.special // (1 << n.mantissa) - 1)
    for spread, fits in ((widest, True), (widest + 1, False)):
        if high - spread < 1:
            continue
        ones = (1 << n.mantissa) - 1
        patterns = [(high << n.mantissa) | ones, ((high - spread) << n.mantissa) | ones]
        pieces = Pieces(format, [(patterns * n.chunk)[: n.chunk]])
        limbs, state = np.zeros(sweeps.ROOM, np.int64), np.zeros(sweeps.STATE, np.int64)
        groups, end = n.chunk * n.size // tags.GROUP_BYTES, pieces.addresses[0]
        tag = tags.Tag(format, 2)
        assert sweeps.add_fast(tag, pieces.addresses[0], groups, end, limbs, state) == fits, spread
        if fits:
            assert from_limbs(limbs.tolist()) == expected_tally(format, pieces.pieces, 2).total
        check_tally(KERNEL, pieces, 2)


def test_limbs_are_carried_in_time():
    """Additions just below the bound, each as large as it can be, in the limbs that they load most."""
    limbs, state = np.zeros(sweeps.ROOM, np.int64), np.zeros(sweeps.STATE, np.int64)
    low, high = (1 << 54) - 1, 1 << 33
    added = 0
    for _ in range(40):
        state[sweeps.ADDITIONS] = sweeps.CARRY_AFTER - 2
        for _ in range(4):
            sweeps.add(limbs, state, low, high, -2176 + 31)
            added += (low + (high << 32)) << 31
    assert state[sweeps.ADDITIONS] < 4
    assert from_limbs(limbs.tolist()) == added


def test_a_limb_just_below_the_bound_does_not_overflow():
    """The most that CARRY_AFTER additions can put into one limb fits, with the carry of the limb below."""
    assert sweeps.CARRY_AFTER * (1 << 34) < 1 << 63


def test_negative_digits_borrow_from_the_limbs_above():
    limbs, state = np.zeros(sweeps.ROOM, np.int64), np.zeros(sweeps.STATE, np.int64)
    sweeps.add(limbs, state, 1, 0, 0)
    sweeps.add(limbs, state, -(1 << 40) + 3, -1, -100)
    sweeps.carry(limbs)
    assert from_limbs(limbs.tolist()) == (1 << 2176) + ((-(1 << 40) + 3 - (1 << 32)) << 2076)
    assert limbs.min() >= 0


def test_scale_on_pieces_that_share_a_group_of_memory():
    # Neighbours in one block: the last group of a piece goes by way of a copy, never over its neighbour.
    values = np.arange(1, 401, dtype=np.float32)
    starts, counts = [0, 7, 70, 71], [7, 63, 1, 329]
    addresses = [values.ctypes.data + 4 * start for start in starts]
    scale(KERNEL, Format.FLOAT32, addresses, counts, 0.5)
    assert (values == np.arange(1, 401) / 2).all()


@pytest.mark.processes
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc overwrites freed memory on request")
def test_no_kernel_reads_memory_that_was_freed():
    """Numba frees an array after its last use by name, also while its address is still in use."""
    program = """
import numpy as np
from shardproof.sums.kernels import Format, load_kernel, scale, tally
values = np.arange(1, 101, dtype=np.float32)
arguments = (load_kernel("numba"), Format.FLOAT32, [values.ctypes.data], [values.size])
wanted = tally(load_kernel("numpy"), *arguments[1:], 2)
assert tally(*arguments, 2) == wanted
scale(*arguments, 0.5)
assert (values == np.arange(1, 101) / 2).all()
"""
    environment = {**os.environ, "MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.perturb=165"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=100)


@pytest.mark.processes
@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="the features are those of x86")
@pytest.mark.parametrize("format", [Format.FLOAT16, Format.FLOAT32])
def test_a_cpu_without_vector_extensions_gets_the_same_bits(format, tmp_path):
    """Without F16C, float16 goes to the NumPy kernel; without FMA and AVX, the others still compile."""
    program = f"""
import numpy as np
from shardproof.sums.kernels import Format, largest, load_kernel, scale, tally
format = Format("{format}")
bits = np.random.default_rng(0).integers(0, 1 << 62, 3000).astype(np.uint64)
both = [bits.astype(f"u{{format.bits.size}}"), bits.astype(f"u{{format.bits.size}}")]
found = []
for name, words in zip(("numba", "numpy"), both):
    arguments = (load_kernel(name), format, [words.ctypes.data], [words.size])
    found.append((tally(*arguments, 2), largest(*arguments)))
    scale(*arguments, 0.3)
assert found[0] == found[1]
assert (both[0] == both[1]).all()
"""
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=100)
