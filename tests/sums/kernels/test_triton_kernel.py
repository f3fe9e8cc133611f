"""The device kernels in Triton's interpreter, on CPU tensors: the bits of rational arithmetic and of the CPU path."""

import math
import os
import random
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from tests.sums.kernels.memory import Pieces, expected_scaled, expected_tally, sign_of, value_of
from tests.sums.kernels.patterns import corner_patterns, random_patterns, streams, within

from shardproof.sums import LIMBS, ExactSum
from shardproof.sums.grid import from_limbs, to_limbs
from shardproof.sums.kernels import Format, load_kernel, scale

if find_spec("triton") is None:
    pytest.skip("Triton is not installed: it has no release for this system", allow_module_level=True)
torch = pytest.importorskip("torch")

from shardproof.sums.kernels import triton_kernel  # noqa: E402

CPU = torch.device("cpu")
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SHORT = 2300  # a block and a part of one


def tensor(format, patterns):
    words = np.array(patterns, dtype=WORDS[format.bits.size])
    return torch.from_numpy(words).view(getattr(torch, format.value))


def patterns_of(values, format):
    return values.numpy(force=True).view(WORDS[format.bits.size]).tolist() if format.bits.size > 2 else _short(values)


def _short(values):
    kind = torch.uint8 if values.itemsize == 1 else torch.int16
    return [word % (1 << 8 * values.itemsize) for word in values.view(kind).tolist()]


def check_tallies(format, slots, order, tallies=triton_kernel.tallies):
    """Digits and counts of each slot are those of rational arithmetic."""
    parts = [(tensor(format, piece), number) for number, pieces in enumerate(slots) for piece in pieces]
    digits, counts = tallies(parts, len(slots), order, CPU)
    expected = [expected_tally(format, pieces, order) for pieces in slots]
    assert digits.min() >= 0
    assert digits.max() < 2**32
    assert [from_limbs(row) for row in digits.tolist()] == [each.total for each in expected]
    assert counts.tolist() == [sum(each.nans for each in expected), sum(each.infs for each in expected)]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("format", Format)
def test_tallies_are_exact(format, order):
    """Corner patterns, any pattern at all, and each run that is made to trip a kernel."""
    check_tallies(format, [[corner_patterns(format)], [random_patterns(format, 300)]], order)
    # float64 goes limb by limb, of which it has many: too slow here for more.
    length = 600 if format is Format.FLOAT64 else SHORT
    check_tallies(format, [[run[:length]] for run in streams(format).values()], order)


def test_tiles_end_where_pieces_do():
    """Counts at the edges of blocks and tiles, empty pieces, several slots, more than one tile."""
    tile = triton_kernel.BLOCK * triton_kernel.BLOCKS
    counts = [0, 1, 2047, 2048, 2049, 0, tile - 1, tile, tile + 1]
    run = within(Format.FLOAT32, tile + 1, 100, 130, 5)
    check_tallies(Format.FLOAT32, [[run[:count], run[: count // 3]] for count in counts], 2)


@pytest.mark.parametrize("format", [Format.FLOAT32, Format.BFLOAT16, Format.FLOAT8_E4M3FN])
def test_pieces_at_every_alignment(format):
    """Pieces that begin at 16 bytes and between them, in one call: a part of a block, a whole one, one and a part."""
    run = within(format, 3000, 3, 12, 6)
    for offset in (0, 1, 16):
        for length in (5, 2048, 2900):
            values = tensor(format, run)[offset : offset + length]
            digits, _ = triton_kernel.tallies([(values, 0), (tensor(format, run), 0)], 1, 2, CPU)
            wanted = expected_tally(format, [run[offset : offset + length], run], 2)
            assert from_limbs(digits[0].tolist()) == wanted.total


def test_no_pieces_and_no_slots():
    digits, counts = triton_kernel.tallies([], 2, 2, CPU)
    assert digits.shape == (2, LIMBS)
    assert not digits.any()
    assert counts.tolist() == [0, 0]
    assert triton_kernel.tallies([], 0, 2, CPU)[0].shape == (0, LIMBS)


def test_the_widest_spread_that_one_window_holds():
    """At the bound, below it and above it, in both ways of adding."""
    for order in (1, 2):
        widest = (102 - order * 24) // order
        for spread in (widest - 1, widest, widest + 1):
            run = [within(Format.FLOAT32, 1, 200 - field, 200 - field, field)[0] for field in (0, spread)]
            check_tallies(Format.FLOAT32, [[[*run, 0, 0x7FFFFF | (200 << 23)]]], order)


def test_a_full_block_of_the_largest_digits_fits():
    check_tallies(Format.FLOAT32, [[[0x7FFFFF | (200 << 23)] * triton_kernel.BLOCK]], 2)


@pytest.mark.parametrize("format", [Format.FLOAT32, Format.BFLOAT16])
def test_a_wrong_tally_is_rejected(format):
    """The judge of these tests finds a lost value, a slot mixed up, digits not carried, a NaN counted as infinite."""

    def loses(parts, slots, order, device):
        return triton_kernel.tallies([(values[1:], slot) for values, slot in parts], slots, order, device)

    def mixes(parts, slots, order, device):
        return triton_kernel.tallies([(values, 0) for values, _ in parts], slots, order, device)

    def uncarried(parts, slots, order, device):
        digits, counts = triton_kernel.tallies(parts, slots, order, device)
        place = digits[0].nonzero()[-1]
        digits[0, place] -= 1
        digits[0, place - 1] += 2**32
        return digits, counts

    def miscounts(parts, slots, order, device):
        digits, counts = triton_kernel.tallies(parts, slots, order, device)
        return digits, counts.flip(0)

    special = format.bits.first_special + 1
    slots = [[within(format, 40, 100, 120, 1)], [[*within(format, 20, 100, 120, 2), special]]]
    for wrong in (loses, mixes, uncarried, miscounts):
        with pytest.raises(AssertionError):
            check_tallies(format, slots, 2, wrong)


@pytest.mark.parametrize("format", Format)
def test_the_largest_magnitude(format):
    """Of each slot, exact as a float64; non-finite values are counted and left out."""
    runs = [run[:SHORT] for run in streams(format).values()] + [corner_patterns(format), []]
    tops, counts = triton_kernel.largest([(tensor(format, run), slot) for slot, run in enumerate(runs)], len(runs), CPU)
    values = [[float(value_of(format, pattern)) for pattern in run] for run in runs]
    assert tops.tolist() == [max((abs(v) for v in run if math.isfinite(v)), default=0.0) for run in values]
    flat = [value for run in values for value in run]
    assert counts.tolist() == [sum(map(math.isnan, flat)), sum(map(math.isinf, flat))]


@pytest.mark.parametrize("factor", [1 / 3, 0.5 + 2**-9 + 2**-40, 0.0, 1e-300, 2.0**-10])
@pytest.mark.parametrize("format", Format)
def test_scaled_elements_are_rounded_once(format, factor):
    """The value by fractions, the sign also of a zero, NaN and infinities as on the CPU."""
    before = corner_patterns(format) + random_patterns(format, 500)
    values = tensor(format, before)
    triton_kernel.scale([(values, 0)], torch.tensor([factor], dtype=torch.float64))
    for old, new in zip(before, patterns_of(values, format), strict=True):
        wanted, found = expected_scaled(format, old, factor), value_of(format, new)
        assert wanted == found or (wanted != wanted and found != found), (hex(old), hex(new))
        if found == found and (found or format.bits.specials != "fnuz"):
            assert sign_of(format, old) == sign_of(format, new), (hex(old), hex(new))


def test_each_piece_has_its_own_factor_and_one_writes_nothing():
    """Also where the tensor may not be written: a factor of one returns before it stores."""
    run = within(Format.BFLOAT16, 2100, 110, 125, 7)
    pieces = [tensor(Format.BFLOAT16, run) for _ in range(3)]
    triton_kernel.scale([(each, slot) for slot, each in enumerate(pieces)], torch.tensor([0.5, 1.0, 1 / 3]).double())
    assert patterns_of(pieces[1], Format.BFLOAT16) == run
    for each, factor in ((pieces[0], 0.5), (pieces[2], float(torch.tensor(1 / 3)))):
        cpu = Pieces(Format.BFLOAT16, [run])
        scale(load_kernel("numpy"), *cpu.arguments, factor)
        assert patterns_of(each, Format.BFLOAT16) == cpu.read()[0]


# ---- root, factor, verdict


def totals():
    """Sums of every size, squares of numbers halfway between two float64 and their neighbours, ends of the range."""
    generator = random.Random(3)
    found = [0, 1, 2, 3, (1 << 28) - 1, 1 << 28, 1 << 2176, (1 << 4300) - 1, 1 << 4200]
    found += [generator.getrandbits(size) | 1 << (size - 1) for size in range(5, 4240, 301)]
    for _ in range(10):
        half = generator.getrandbits(54) | 1 << 53 | 1
        square = half * half << 2 * generator.randint(15, 1900)
        found += [square - 1, square, square + 1]
    largest = ((1 << 54) - 1) ** 2 << (2176 + 2 * 970)
    return [*found, largest, largest - 1]


def uncarried(total, generator):
    """Digits that stand for the same sum and exceed 32 bits, as after a SUM over ranks."""
    digits = list(to_limbs(total))
    for place in range(LIMBS - 1, 0, -1):
        take = min(digits[place], generator.randint(0, 2**20))
        digits[place], digits[place - 1] = digits[place] - take, digits[place - 1] + (take << 32)
    return digits


HEADER = [6, 18, 0, 0, 0, 0, 0, 0]  # two ranks with the fingerprint 3


@pytest.mark.parametrize(("order", "eps"), [(1, 0.0), (2, 0.0), (2, 1e-6)])
def test_norm_and_factor_have_the_bits_of_the_cpu_path(order, eps):
    """Root and value rounded once; factor by the same division; from carried and uncarried limbs."""
    from shardproof.torch.norms import of_sum

    generator = random.Random(1)
    sums = totals()
    limbs = [to_limbs(total) if index % 2 else uncarried(total, generator) for index, total in enumerate(sums)]
    limits = [(1.0, 1e-3, math.inf, 0.0, 5e300, 1e-310)[index % 6] for index in range(len(sums))]
    norms, factors = triton_kernel.norms_and_factors(
        torch.tensor(limbs), torch.tensor(HEADER), 2, torch.tensor(limits, dtype=torch.float64), eps, order
    )
    wanted = [of_sum(total, order, limit, eps) for total, limit in zip(sums, limits, strict=True)]
    assert norms.tolist() == [each.norm for each in wanted]
    # A norm beyond float64 has no factor on the device: plans with float64 gradients decide on the host.
    assert factors.tolist() == [each.factor if each.norm < math.inf else 1.0 for each in wanted]


@pytest.mark.parametrize(
    ("place", "value", "norm"),
    [(1, 19, math.nan), (2, 1, math.nan), (3, 1, math.nan), (4, -7, math.nan), (5, 1 << 40, math.nan),
     (6, 1, math.nan), (7, 2, math.inf)],
)  # fmt: skip
def test_a_void_call_scales_nothing(place, value, norm):
    """Disagreement, a stale plan, a refusal, copies without gradients, unequal copies, NaN, infinities."""
    header = [*HEADER[:place], value, *HEADER[place + 1 :]]
    limbs = torch.tensor([to_limbs(ExactSum.of_squares([3.0, 4.0]).total)])
    limits = torch.tensor([1.0], dtype=torch.float64)
    norms, factors = triton_kernel.norms_and_factors(limbs, torch.tensor(header), 2, limits, 0.0, 2)
    assert repr(norms.item()) == repr(norm)
    assert factors.tolist() == [1.0]
    norms, factors = triton_kernel.norms_and_factors(limbs, torch.tensor(HEADER), 2, limits, 0.0, 2)
    assert (norms.item(), factors.item()) == (5.0, 0.2)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from shardproof.sums.kernels import Format, triton_finish, triton_kernel, triton_scale, triton_tally

KINDS = {"table": "*i64", "limbs": "*i64", "tops": "*i64", "counts": "*i64", "packed": "*i64", "header": "*i64",
         "factors": "*fp64", "norms": "*fp64", "limits": "*fp64", "eps": "*fp64"}

def compiled(kernel, constants):
    kinds = {name: "constexpr" if name in constants else KINDS.get(name, "i32") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=kinds, constexprs=constants)
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": True})
    assert len(built.asm["cubin"]) > 1000
    assert ".ftz" not in built.asm["ptx"]
    print(kernel.__name__, "compiled")

for form in (Format.FLOAT32, Format.FLOAT64, Format.FLOAT8_E4M3FN):
    constants = triton_kernel._constants(form, aligned=True)
    constants.pop("enable_fp_fusion")
    compiled(triton_tally.tally_tiles, {**constants, "ORDER": 2})
    compiled(triton_tally.largest_tiles, constants)
    compiled(triton_scale.scale_tiles, constants)
compiled(triton_finish.merge_stripes, {})
for order in (1, 2):
    compiled(triton_finish.finish, {"ORDER": order})
"""


@pytest.mark.processes
def test_kernels_compile_for_a_gpu_that_is_not_there(tmp_path):
    """Down to machine code for Hopper, and no instruction flushes subnormals; it is not run."""
    if not find_spec("triton.backends.nvidia") or sys.platform != "linux":
        pytest.skip("this Triton has no NVIDIA back end")
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    assert told.stdout.count("compiled") == 12
