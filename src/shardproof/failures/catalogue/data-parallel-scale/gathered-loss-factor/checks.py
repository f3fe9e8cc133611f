"""Detached and differentiable gathers under collectives that sum and that average."""

from shardproof.failures.exact import scaled


def run_of(backward, gather, reduce, wrapper, **more):
    run = {"backward": [list(row) for row in backward], "gather": gather, "reduce": reduce, "wrapper": wrapper}
    return (run | more,)


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 3
    turn = n % 4
    parts = [[m], [2 * m], [3 * m], [2 * m]]
    parts = parts[turn:] + parts[:turn]
    two = [[3 * m], [5 * m]]
    four = [[6 * m, 0], [0, 8 * m], [0, 0], [0, 0]]
    four = four[turn:] + four[:turn]
    whole = [[2 * m * world] for _ in range(world)]
    shares = [[3 * m * (k + 1), 4 * m * (k + 1)] for k in range(world)]
    total = world * (world + 1) // 2
    eight = {"grad": [8 * m], "norm": 8 * m}
    every = {"grad": [2 * m * world], "norm": 2 * m * world}
    return [
        ("four parts under an average", run_of(parts, "detached", "mean", "fsdp"), eight),
        ("two parts, known wrapper that averages", run_of(two, "detached", "mean", "megatron"), eight),
        ("two parts, the same wrapper in its mode that sums", run_of(two, "detached", "sum", "megatron"), eight),
        ("whole gradients averaged", run_of(whole, "differentiable", "mean", "ddp"), every),
        ("whole gradients summed", run_of(whole, "differentiable", "sum", "ddp"), every),
        (
            "clipped after the factor",
            run_of(four, "detached", "mean", "engine", limit=5 * m),
            {"grad": [3 * m, 4 * m], "norm": 10 * m},
        ),
        (
            "a part on each rank, engine that averages",
            run_of(shares, "detached", "mean", "engine"),
            {"grad": [3 * m * total, 4 * m * total], "norm": 5 * m * total},
        ),
        (
            "whole gradients summed, below the limit",
            run_of(whole, "differentiable", "sum", "engine", limit=4 * m * world),
            every,
        ),
        (
            "parts summed, no factor: cannot reveal the error",
            run_of(shares, "detached", "sum", "engine", limit=m * total),
            {"grad": scaled([3 * m * total, 4 * m * total], 1, 5), "norm": 5 * m * total},
        ),
        (
            "single rank: cannot reveal the error",
            run_of([[3 * m, 4 * m]], ("detached", "differentiable")[n % 2], "mean", "ddp"),
            {"grad": [3 * m, 4 * m], "norm": 5 * m},
        ),
    ]
