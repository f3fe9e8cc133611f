"""The same rule on more ranks, with silent ranks, cancelling parts and a limit on each combination."""

from shardproof.failures.exact import scaled


def run_of(backward, gather, reduce, wrapper, **more):
    run = {"backward": [list(row) for row in backward], "gather": gather, "reduce": reduce, "wrapper": wrapper}
    return (run | more,)


def checks(n):
    m = 1 + n % 89
    world = (2, 4, 8)[n % 3]
    sparse = [[15 * m * (k == n % world), -20 * m * (k == n % world)] for k in range(world)]
    whole = [[3 * m * (k % 2) * 2, 4 * m * (k % 2) * 2] for k in range(world)]
    each = {"grad": [3 * m, 4 * m], "norm": 5 * m}
    return [
        (
            "one rank holds the only part",
            run_of(sparse, "detached", "mean", "ddp", limit=10 * m),
            {"grad": [6 * m, -8 * m], "norm": 25 * m},
        ),
        (
            "one rank holds the only part, summed",
            run_of(sparse, "detached", "sum", "ddp", limit=m),
            {"grad": scaled([3 * m, -4 * m], 1, 5), "norm": 25 * m},
        ),
        ("unequal results of a differentiable gather", run_of(whole, "differentiable", "mean", "fsdp"), each),
        ("the same under a sum", run_of(whole, "differentiable", "sum", "fsdp"), each),
        ("parts cancel", run_of([[m], [-m]], "detached", "mean", "fsdp", limit=m), {"grad": [0], "norm": 0}),
        ("the same, known wrapper that sums", run_of(whole, "differentiable", "sum", "megatron"), each),
    ]
