"""Norms and clips side by side with torch's, as ratios of medians; targets that are missed are named.

GPT-2 124M with the gradients of a real backward pass. Run on idle cores, from the repository's root:

    python -m benchmarks.norm                 (about five minutes)
    python -m benchmarks.norm --rounds 5 --quick
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks import peers, ranks
from benchmarks.gpt2 import gradients
from benchmarks.machine import machine, write
from benchmarks.plot import write_plot
from benchmarks.timing import Times, side_by_side
from torch import Tensor, nn

from shardproof.sums.kernels import Format, best_kernel, largest
from shardproof.torch import clip_grad_norm_, get_total_norm

NO_LIMIT = 1e30
BAR = 40
COMMAND = "python -m benchmarks.norm"


@dataclass(frozen=True)
class Work:
    """One piece of work, done by shardproof and by its peer, and the ratio of times to reach by threads."""

    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    targets: dict[int, float]
    bytes: int
    prepare: Callable[[], object] | None = None
    peer: str = "torch"


@dataclass(frozen=True)
class Row:
    """One line of the table; seconds, and `floor` for reading the bytes once.

    `ratio` is that of the medians, `fastest` that of the fastest rounds: far apart, the machine was not idle.
    """

    work: str
    peer: str
    threads: int
    ours: float
    theirs: float
    spread: float
    ratio: float
    fastest: float
    target: float | None
    floor: float | None


def norms(held: dict[torch.dtype, list[Tensor]]) -> Iterator[Work]:
    """The norm alone."""
    for dtype, targets in (
        (torch.float32, {2: 1.0, 1: 1.8}),
        (torch.bfloat16, {2: 0.8, 1: 1.6}),
        (torch.float16, {2: 0.8, 1: 1.6}),
    ):
        grads = held[dtype]
        yield Work(
            f"norm only, {short(dtype)}",
            lambda grads=grads: get_total_norm(grads),
            lambda grads=grads: torch.nn.utils.get_total_norm(grads),
            targets,
            size(grads),
        )


def others(held: dict[torch.dtype, list[Tensor]]) -> Iterator[Work]:
    """The norm alone, against norm loops of training frameworks."""
    grads = held[torch.float32]
    for name, peer in (("Megatron-style", peers.like_megatron), ("DeepSpeed-style", peers.like_deepspeed)):
        yield Work(
            "norm only, fp32",
            lambda: get_total_norm(grads),
            lambda peer=peer: peer(grads),
            {},
            size(grads),
            peer=name,
        )


def clips(held: dict[torch.dtype, list[Tensor]]) -> Iterator[Work]:
    """The clip call, below and above the limit."""
    for dtype in (torch.float32, torch.bfloat16):
        parameters = with_gradients(held[dtype])
        yield Work(
            f"clip below the limit, {short(dtype)}",
            lambda parameters=parameters: clip_grad_norm_(parameters, NO_LIMIT),
            lambda parameters=parameters: torch.nn.utils.clip_grad_norm_(parameters, NO_LIMIT),
            {2: 0.5, 1: 0.9},
            size(held[dtype]),
        )
    grads = held[torch.float32]
    parameters, kept = with_gradients(grads), [each.clone() for each in grads]
    limit = float(get_total_norm(grads)) / 2

    def restore() -> None:
        torch._foreach_copy_(grads, kept)

    yield Work(
        "clip above the limit, fp32",
        lambda: clip_grad_norm_(parameters, limit),
        lambda: torch.nn.utils.clip_grad_norm_(parameters, limit),
        {2: 1.05, 1: 1.4},
        size(grads),
        restore,
    )


def many() -> Iterator[Work]:
    """Many small tensors."""
    torch.manual_seed(0)
    parameters = with_gradients([torch.randn(1000) * 1e-3 for _ in range(3000)])
    yield Work(
        "3,000 tensors of 1,000, fp32",
        lambda: clip_grad_norm_(parameters, NO_LIMIT),
        lambda: torch.nn.utils.clip_grad_norm_(parameters, NO_LIMIT),
        {2: 0.5, 1: 0.7},
        12_000_000,
    )


def spread() -> Iterator[Work]:
    """Exponents that spread: a few tiny values in every chunk, against the same kernel on ordinary values."""
    torch.manual_seed(0)
    plain = torch.randn(30_000_000) * 1e-3
    tiny = plain.clone()
    tiny[::1500] = 1e-30
    for dtype in (torch.float32, torch.bfloat16):
        one, other = tiny.to(dtype), plain.to(dtype)
        yield Work(
            f"tiny values in every chunk, {short(dtype)}",
            lambda one=one: get_total_norm([one]),
            lambda other=other: get_total_norm([other]),
            {2: 1.5, 1: 1.5},
            size([one]),
            peer="ordinary values",
        )


def steps(held: dict[torch.dtype, list[Tensor]]) -> Iterator[Work]:
    """A whole AdamW step after a clip, and one without."""
    parameters = with_gradients(held[torch.float32])
    optimizer = torch.optim.AdamW(parameters, lr=0.0, fused=True)

    def ours() -> None:
        clip_grad_norm_(parameters, NO_LIMIT)
        optimizer.step()

    def theirs() -> None:
        torch.nn.utils.clip_grad_norm_(parameters, NO_LIMIT)
        optimizer.step()

    count = size(held[torch.float32])
    yield Work("clip and AdamW step, fp32", ours, theirs, {}, count)
    yield Work("clip and AdamW step, fp32", ours, optimizer.step, {}, count, peer="step without clip")


# ---- measuring


def rows(works: Sequence[Work], threads: int, rounds: int) -> Iterator[Row]:
    """Measure each piece of work with that many threads."""
    torch.set_num_threads(threads)
    speed = memory_speed(threads, rounds)
    for work in works:
        times = side_by_side({"ours": work.ours, "theirs": work.theirs}, rounds, work.prepare)
        ours, theirs = times["ours"], times["theirs"]
        yield Row(
            work.name,
            work.peer,
            threads,
            ours.median,
            theirs.median,
            relative_spread(ours, theirs),
            ours.median / theirs.median,
            ours.fastest / theirs.fastest,
            work.targets.get(threads),
            work.bytes / speed,
        )


def relative_spread(*times: Times) -> float:
    """The widest distance between quartiles, as a part of the median: how far the ratio can be trusted."""
    return max((each.upper - each.lower) / each.median for each in times)


def memory_speed(threads: int, rounds: int) -> float:
    """Bytes per second of the cheapest pass over memory: the largest magnitude."""
    values = torch.ones(100_000_000)
    kernel, where = best_kernel(), ([values.data_ptr()], [values.numel()])
    times = side_by_side({"read": lambda: largest(kernel, Format.FLOAT32, *where, threads)}, rounds)
    return 4 * values.numel() / times["read"].median


def dtensors() -> Iterator[Row]:
    """Two real ranks with DTensors."""
    found = ranks.measure()
    ours, theirs = found["shardproof"], found["torch"]
    for call, target in (("first", 0.05), ("later", 0.3)):
        yield Row(
            f"{ranks.TENSORS:,} DTensors, {call} call" + ("s" if call == "later" else ""),
            "torch",
            1,
            ours[call],
            theirs[call],
            0.0,
            ours[call] / theirs[call],
            ours[call] / theirs[call],
            target,
            None,
        )
    print(f"collectives per call: {ours['collectives']:.0f}, torch {theirs['collectives']:.0f}")


def errors(count: int) -> dict[str, float]:
    """Relative errors of both norms of `count` float32 values, against float64 sums of few values, added exactly."""
    torch.manual_seed(0)
    found = {}
    for name, values in (("normal", torch.randn(count)), ("equal", torch.full((count,), 0.1))):
        exact = math.sqrt(math.fsum(float(chunk.double().square().sum()) for chunk in values.split(1 << 12)))
        found[f"shardproof, {name}"] = float(get_total_norm([values])) / exact - 1
        found[f"torch, {name}"] = float(torch.nn.utils.get_total_norm([values])) / exact - 1
    return found


def extra_memory(grads: list[Tensor]) -> int:
    """Bytes by which the process's highest memory use grows when all of `grads` is measured, once warm."""
    get_total_norm(grads[:1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ballast = bytearray(max(0, before - resident()) * 1024)  # lifts what is in use to the highest so far
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    get_total_norm(grads)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del ballast
    return (after - before) * 1024


def resident() -> int:
    """KiB of memory in use now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


# ---- showing


def table(found: Sequence[Row]) -> str:
    """The rows for people: medians, ratio, target, a bar for the ratio, and whether the target is missed."""
    lines = [f"{'work':<36} {'peer':<17} thr   ours ms   peer ms  floor ms  ratio fastest target"]
    for row in found:
        target = f"{row.target:6.2f}" if row.target else "      "
        floor = f"{row.floor * 1e3:9.2f}" if row.floor else " " * 9
        missed = " missed" if row.target and row.ratio > row.target else ""
        doubt = f" (quartiles {row.spread:.0%} apart)" if row.spread > 0.15 else ""
        lines.append(
            f"{row.work:<36} {row.peer:<17} {row.threads:>3} {row.ours * 1e3:9.2f} {row.theirs * 1e3:9.2f} {floor} "
            f"{row.ratio:6.2f} {row.fastest:7.2f} {target} {bar(row)}{missed}{doubt}"
        )
    return "\n".join(lines)


def bar(row: Row) -> str:
    """Ours as a part of the peer's time; the peer's is `|`."""
    length = min(round(row.ratio * BAR / 2), BAR)
    return "".join("|" if place == BAR // 2 else "#" if place < length else " " for place in range(BAR + 1)).rstrip()


# ---- gradients


def with_gradients(grads: Sequence[Tensor]) -> list[nn.Parameter]:
    """Parameters that hold these gradients."""
    parameters = []
    for grad in grads:
        parameter = nn.Parameter(torch.zeros_like(grad))
        parameter.grad = grad
        parameters.append(parameter)
    return parameters


def size(grads: Sequence[Tensor]) -> int:
    """Bytes of all values."""
    return sum(each.numel() * each.element_size() for each in grads)


def short(dtype: torch.dtype) -> str:
    """Its name in the table."""
    return {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}[dtype]


def main() -> None:
    """Measure, print, and write the numbers to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--quick", action="store_true", help="only norms and clips")
    asked = parser.parse_args()
    whole = gradients(torch.float32)
    held = {dtype: [each.to(dtype) for each in whole] for dtype in (torch.float32, torch.bfloat16, torch.float16)}
    growth = extra_memory(held[torch.float32])
    works = [*norms(held), *clips(held), *many()]
    if not asked.quick:
        works += [*others(held), *spread(), *steps(held)]
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    load = os.getloadavg()[0]
    found = [row for threads in asked.threads for row in rows(works, threads, asked.rounds)]
    content: dict[str, Any] = {"load_before": load, "rounds": asked.rounds, "extra_memory_bytes": growth}
    if not asked.quick:
        found += dtensors()
        content["relative_errors_200M"] = errors(200_000_000)
    print(table(found))
    for name, error in content.get("relative_errors_200M", {}).items():
        print(f"relative error of the norm of 200M values, {name}: {error:.1e}")
    print(f"extra memory: {growth:,} bytes; load average before: {load:.2f}; medians of {asked.rounds} rounds")
    missed = [f"{row.work} ({row.threads} threads)" for row in found if row.target and row.ratio > row.target]
    print("targets missed: " + ("; ".join(missed) or "none"))
    target = write("norm", COMMAND, {**content, "rows": [asdict(row) for row in found]})
    print(f"written to {target} and {write_plot(target)}", file=sys.stderr)


if __name__ == "__main__":
    main()
