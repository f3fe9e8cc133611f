"""On a GPU machine: check the device kernels' bits against the CPU's, then time norms and clips beside torch's.

`python -m benchmarks.gpu` from the repository's root. Exits with 0 when all bits agree, 1 when some do not, 3 where
there is no GPU. `--interpret` runs the checks, small, on the CPU in Triton's interpreter, and times nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

HELD, DIFFERENT, COULD_NOT_TELL = 0, 1, 3
ROUNDS = 30


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--interpret", action="store_true", help="small checks on the CPU, in Triton's interpreter")
    interpret = parser.parse_args().interpret
    if interpret:
        # Triton reads it when it is first imported.
        os.environ["TRITON_INTERPRET"] = "1"
    import torch

    if not interpret and not torch.cuda.is_available():
        print(
            f"No GPU: torch {torch.__version__} finds none. Nothing was checked or timed; "
            "--interpret checks on the CPU."
        )
        return COULD_NOT_TELL
    device = torch.device("cpu" if interpret else "cuda")
    failed = [name for name, held in checks(device, 3000 if interpret else 3_000_000) if not shown(name, held)]
    print(f"{len(failed)} checks failed" if failed else "all bits agree")
    if not interpret:
        report(timings(device), failed)
    return DIFFERENT if failed else HELD


def shown(name: str, held: bool) -> bool:
    """Print one check as it ends."""
    print(f"{'ok  ' if held else 'FAIL'}  {name}", flush=True)
    return held


# ---- bits


def checks(device: Any, size: int) -> Iterator[tuple[str, bool]]:
    """Each check's name and whether it held."""
    import torch

    from shardproof.sums.kernels import Format

    for form in Format:
        if not hasattr(torch, form.value):
            continue
        for name, values in inputs(form, size):
            for order in (1, 2):
                yield f"{form} {name}: sum of order {order}", sums_agree(form, values, order, device)
            yield f"{form} {name}: largest", largest_agrees(form, values, device)
            yield f"{form} {name}: scaled", all(scaled_agree(form, values, f, device) for f in (1 / 3, 2.0**-9, 0.0))
    for order in (1, 2):
        yield f"root and factor, order {order}", roots_agree(order, device)
    yield "a plan, device against host", plans_agree(device, size)
    if device.type == "cuda":
        yield "a clip on the device does not synchronise", does_not_wait(device)


def inputs(form: Any, size: int) -> Iterator[tuple[str, Any]]:
    """Bit patterns: any at all, then finite ones close together, spread, and subnormal."""
    import torch

    bits = form.bits
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[bits.size]
    generator = torch.Generator().manual_seed(0)
    top = (bits.first_special - 1) >> bits.mantissa
    sign = torch.randint(2, (size,), generator=generator) << (bits.exponent + bits.mantissa)
    fraction = torch.randint(1 << bits.mantissa, (size,), generator=generator)
    ranges = {"close": (top // 2 - 2, top // 2 + 1), "spread": (0, top), "subnormal": (0, 1)}
    yield "any", torch.randint(256, (size * bits.size,), dtype=torch.uint8, generator=generator).view(kind)
    for name, (low, high) in ranges.items():
        field = torch.randint(low, max(high, low + 1), (size,), generator=generator)
        yield name, (sign | field << bits.mantissa | fraction).to(kind)


def typed(form: Any, words: Any, device: Any) -> Any:
    """A copy on the device, as values of the format."""
    import torch

    return words.clone().to(device).view(getattr(torch, form.value))


def sums_agree(form: Any, words: Any, order: Any, device: Any) -> bool:
    """The device's sum and counts are those of the NumPy kernel; several pieces, at odd offsets."""
    from shardproof.sums.grid import from_limbs
    from shardproof.sums.kernels import Tally, load_kernel, tally, triton_kernel

    values = typed(form, words, device)
    third = values.numel() // 3
    parts = [(values[:third], 0), (values[third : third + 1], 0), (values[third + 1 :], 0)]
    digits, counts = triton_kernel.tallies(parts, 1, order, device)
    wanted = tally(load_kernel("numpy"), form, [words.data_ptr()], [words.numel()], order)
    return Tally(from_limbs(digits[0].tolist()), *counts.tolist()) == wanted


def largest_agrees(form: Any, words: Any, device: Any) -> bool:
    """The device's largest magnitude and counts are those of the NumPy kernel."""
    from shardproof.sums.kernels import Largest, largest, load_kernel, triton_kernel

    tops, counts = triton_kernel.largest([(typed(form, words, device), 0)], 1, device)
    wanted = largest(load_kernel("numpy"), form, [words.data_ptr()], [words.numel()])
    return Largest(tops.item(), *counts.tolist()) == wanted


def scaled_agree(form: Any, words: Any, factor: float, device: Any) -> bool:
    """Elements as the NumPy kernel scales them, bit by bit where they are finite; others stay not finite."""
    import torch

    from shardproof.sums.kernels import load_kernel, scale, triton_kernel

    values, host = typed(form, words, device), words.clone()
    triton_kernel.scale([(values, 0)], torch.tensor([factor], dtype=torch.float64, device=device))
    scale(load_kernel("numpy"), form, [host.data_ptr()], [host.numel()], factor)
    found = values.cpu().view(host.dtype)
    differ = found != host
    numbers = host[differ].view(values.dtype).float()
    return bool(numbers.isnan().all() and found[differ].view(values.dtype).float().isnan().all())


def roots_agree(order: int, device: Any) -> bool:
    """Norm and factor of sums of every size have the bits of the host's."""
    import torch

    from shardproof.sums.grid import to_limbs
    from shardproof.sums.kernels import triton_kernel
    from shardproof.torch.norms import of_sum

    generator = random.Random(0)
    # A norm beyond float64 is decided on the host: sums stay below 2**2047 for order 2, 2**1023 for order 1.
    highest = 2176 + (2046 if order == 2 else 1022)
    totals = [generator.getrandbits(generator.randint(1, highest)) for _ in range(60)]
    halves = [generator.getrandbits(54) | 1 << 53 | 1 for _ in range(20)]
    totals += [half * half + near << 2 * generator.randint(15, 900) for half in halves for near in (-1, 0, 1)]
    limits = [generator.choice([1.0, 1e-3, float("inf"), 0.0]) for _ in totals]
    header = torch.zeros(8, dtype=torch.int64, device=device)
    norms, factors = triton_kernel.norms_and_factors(
        torch.tensor([to_limbs(total) for total in totals], device=device),
        header,
        1,
        torch.tensor(limits, dtype=torch.float64, device=device),
        0.0,
        order,
    )
    wanted = [of_sum(total, order, limit, 0.0) for total, limit in zip(totals, limits, strict=True)]
    return list(zip(norms.tolist(), factors.tolist(), strict=True)) == [(each.norm, each.factor) for each in wanted]


def weights(device: Any, sizes: list[int]) -> list[tuple[str, Any]]:
    """Parameters of three dtypes with gradients of spread magnitudes, the same on every device."""
    import torch

    generator, found = torch.Generator().manual_seed(1), []
    for number, size in enumerate(sizes):
        spread = torch.randn(size, generator=generator) * 2.0 ** torch.randint(-15, 2, (size,), generator=generator)
        dtype = (torch.float32, torch.bfloat16, torch.float16)[number % 3]
        weight = torch.nn.Parameter(torch.zeros(size, dtype=dtype, device=device))
        weight.grad = spread.to(dtype).to(device)
        found.append((f"w{number}", weight))
    return found


def plans_agree(device: Any, size: int) -> bool:
    """Norms and clipped gradients of a plan on the device and of one on the host, above and below the limit."""
    import torch

    from shardproof.torch import ClipPlan, deferred
    from shardproof.torch import device as on

    answers = []
    for kinds, place in (({"cuda", device.type}, device), (set(), torch.device("cpu"))):
        on.KINDS = deferred.KINDS = kinds
        named = weights(place, [size // 3, 1, 0, 4097, 2048, size // 50])
        plan = ClipPlan(named)
        norms = [float(plan.clip_(limit)) for limit in (1e30, 0.75, None)]
        plan.check()
        answers.append((norms, [weight.grad.float().tolist() for _, weight in named]))
    on.KINDS = deferred.KINDS = {"cuda"}
    return answers[0] == answers[1]


def does_not_wait(device: Any) -> bool:
    """torch raises at any operation that makes the host wait for the GPU."""
    import torch

    from shardproof.torch import ClipPlan

    named = weights(device, [1 << 20, 1 << 18, 100])
    plan = ClipPlan(named)
    plan.clip_(1.0)
    plan.check()
    torch.cuda.set_sync_debug_mode("error")
    try:
        plan.clip_(0.5)
    except RuntimeError as error:
        print(f"      {error}")
        return False
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return True


# ---- times


def timings(device: Any) -> dict[str, dict[str, float]]:
    """Milliseconds by work and contestant: medians of rounds in which all take their turn; GPT-2 124M's gradients."""
    import torch
    from benchmarks.gpt2 import gradients

    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        kept = [each.to(device) for each in gradients(dtype)]
        tensors = [torch.nn.Parameter(torch.zeros_like(each)) for each in kept]

        def restore(tensors: list[Any] = tensors, kept: list[Any] = kept) -> None:
            for weight, gradient in zip(tensors, kept, strict=True):
                weight.grad = gradient.clone()

        restore()
        for work, limit in (("norm only", None), ("below the limit", 1e9), ("above the limit", 1e-3)):
            found[f"{work}, {str(dtype).removeprefix('torch.')}"] = measured(contestants(tensors, limit), restore)
    return found


def contestants(tensors: list[Any], limit: float | None) -> dict[str, Callable[[], Any]]:
    """Name -> a call that clips to `limit`, or only measures."""
    import torch

    from shardproof.torch import ClipPlan

    def theirs() -> Any:
        if limit is None:
            return torch.nn.utils.get_total_norm([each.grad for each in tensors], foreach=True)
        return torch.nn.utils.clip_grad_norm_(tensors, limit, foreach=True)

    exact, quick = ClipPlan(tensors), ClipPlan(tensors, accumulate="native")
    return {"torch": theirs, "shardproof": lambda: exact.clip_(limit), "native": lambda: quick.clip_(limit)}


def measured(contestants: dict[str, Callable[[], Any]], restore: Callable[[], None]) -> dict[str, float]:
    """Milliseconds on the device's clock, and the host's, which is what a training loop waits."""
    import time

    import torch

    times: dict[str, list[float]] = {}
    for number in range(-3, ROUNDS):
        for name, call in contestants.items():
            restore()
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun = time.perf_counter()
            begin.record()
            call()
            end.record()
            asked = time.perf_counter() - begun
            end.synchronize()
            if number >= 0:
                times.setdefault(name, []).append(begin.elapsed_time(end))
                times.setdefault(f"{name}, host", []).append(1e3 * asked)
    return {name: median(each) for name, each in times.items()}


def report(found: dict[str, dict[str, float]], failed: list[str]) -> None:
    """Print a table and write the JSON."""
    import torch
    import triton
    from benchmarks.machine import write

    print(f"{'milliseconds on the device (host)':<28} {'torch':>16} {'shardproof':>16} {'native':>16}   ratio")
    for work, times in found.items():
        cells = [f"{times[name]:7.3f} ({times[f'{name}, host']:5.3f})" for name in ("torch", "shardproof", "native")]
        print(f"{work:<33} {' '.join(cells)}   {times['shardproof'] / times['torch']:5.2f}")
    name = torch.cuda.get_device_name()
    content = {"gpu": name, "triton": triton.__version__, "cuda": torch.version.cuda, "failed": failed, "times": found}
    print(write(f"gpu_{name.replace(' ', '-')}", "python -m benchmarks.gpu", content))


if __name__ == "__main__":
    sys.exit(main())
