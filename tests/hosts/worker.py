"""One rank on one test host: clip until the group fails, and put on disk what was seen. Started by torchrun."""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from shardproof import ShardproofError, global_norm
from shardproof.torch import clip_grad_norm_

TIMEOUT = 8.0
"""Seconds after which gloo gives a collective up."""

CALLS = 5
"""Calls that every rank makes before it says that all is right."""


def main(folder, host):
    # The first use compiles the kernel's code, for longer than the timeout of a group that may be waiting for it.
    clip_grad_norm_([parameter([3.0, 4.0])], 1.0)
    dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    before = bytes_sent()
    fsdp = [fully_sharded(rank, ranks)]
    seen = [by_hand(rank, ranks) for _ in range(CALLS)]
    seen_by = {"host": host, "rank": rank, "calls": [*fsdp, *seen], "bytes_sent": bytes_sent() - before}
    write(folder / f"right{host}.json", seen_by | {"links": sorted(each.name for each in links())})
    begun = time.monotonic()
    while True:
        call = by_hand(rank, ranks)
        if call["error"]:
            break
        begun = time.monotonic()
    write(folder / f"fault{host}.json", {"host": host, "rank": rank, "seconds": time.monotonic() - begun} | call)
    # Ranks end together: the first to end would take the store away from those that still ask it.
    wait_for_faults(folder, ranks)
    os._exit(0)


def by_hand(rank, ranks):
    """A shard and a copy: what a call gives, what it should give, and what became of the gradients."""
    shard, copy = parameter([float(rank + 1), 2.0]), parameter([5.0])
    expected = global_norm([[float(each + 1), 2.0] for each in range(ranks)] + [[5.0]])
    before = [each.grad.clone() for each in (shard, copy)]
    return outcome(
        lambda: clip_grad_norm_(
            [("shard", shard), ("copy", copy)], 1.0, placements={"shard": "shard", "copy": "replicate"}
        ),
        [shard.grad, copy.grad],
        before,
        expected,
    )


def fully_sharded(rank, ranks):
    """A model under fully_shard, on a mesh of all hosts."""
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Sequential(torch.nn.Linear(5, 2 * ranks + 1), torch.nn.Linear(2 * ranks + 1, 3))
    with torch.no_grad():
        for index, each in enumerate(model.parameters()):
            each.copy_(torch.arange(each.numel()).reshape(each.shape) + index)
    expected = global_norm([each.detach().flatten().tolist() for each in model.parameters()])
    fully_shard(model)
    for each in model.parameters():
        each.grad = each.detach().clone()
    grads = [each.grad.to_local() for each in model.parameters()]
    before = [each.clone() for each in grads]
    return outcome(lambda: clip_grad_norm_(model, 1.0), grads, before, expected)


def outcome(call, grads, before, expected):
    try:
        norm, error, text = float(call()), "", ""
    except ShardproofError as raised:
        norm, error, text = 0.0, type(raised).__name__, str(raised)
    clipped = [(each.double() * min(1.0, 1.0 / expected)).to(each.dtype) for each in before]
    return {
        "norm": norm,
        "expected": expected,
        "error": error,
        "text": text,
        "clipped": all(torch.equal(now, right) for now, right in zip(grads, clipped, strict=True)),
        "untouched": all(torch.equal(now, was) for now, was in zip(grads, before, strict=True)),
    }


def parameter(values):
    made = torch.nn.Parameter(torch.zeros(len(values)))
    made.grad = torch.tensor(values)
    return made


def links():
    return list(Path("/sys/class/net").iterdir())


def bytes_sent():
    return int((Path("/sys/class/net") / os.environ["GLOO_SOCKET_IFNAME"] / "statistics/tx_bytes").read_text())


def write(path, seen):
    """Written whole or not at all: who waits for the file reads it at once."""
    path.with_suffix(".part").write_text(json.dumps(seen, allow_nan=False))
    path.with_suffix(".part").replace(path)


def wait_for_faults(folder, ranks):
    end = time.monotonic() + 20
    while len(list(folder.glob("fault*.json"))) < ranks and time.monotonic() < end:
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
