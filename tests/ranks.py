"""Run a function on real gloo ranks and bring back what each returns or raises."""

import multiprocessing
import os
import tempfile
import time
import traceback
from datetime import timedelta

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "torch.distributed.tensor", "torch.distributed.fsdp", "shardproof.torch"])


def on_ranks(world, function, *arguments, timeout=10.0, patience=60.0):
    """Call function(rank, *arguments) on `world` ranks; the results in rank order.

    A rank that raises gives its exception's text as an AssertionError here, unless the function returns it.
    """
    with tempfile.TemporaryDirectory() as folder:
        pipes = [CONTEXT.Pipe(duplex=False) for _ in range(world)]
        ranks = [
            CONTEXT.Process(
                target=_rank, args=(rank, world, f"{folder}/store", sender, timeout, function, arguments), daemon=True
            )
            for rank, (_, sender) in enumerate(pipes)
        ]
        for process in ranks:
            process.start()
        for _, sender in pipes:
            sender.close()
        try:
            return [_answer(rank, receiver, patience) for rank, (receiver, _) in enumerate(pipes)]
        finally:
            for process in ranks:
                process.kill()
                process.join()


DIED = "died"
"""What a rank that ended without an answer gives."""


def _answer(rank, receiver, patience):
    end = time.monotonic() + patience
    if not receiver.poll(max(0.0, end - time.monotonic())):
        raise AssertionError(f"rank {rank} did not answer within {patience} s")
    try:
        kind, answer = receiver.recv()
    except EOFError:
        return DIED
    if kind == "raised":
        raise AssertionError(f"rank {rank} raised:\n{answer}")
    return answer


def _rank(rank, world, store, sender, timeout, function, arguments):
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(store, world),
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=timeout),
        )
        sender.send(("answer", function(rank, *arguments)))
    except BaseException:
        sender.send(("raised", traceback.format_exc()))
    finally:
        sender.close()
        # A rank must not wait in tear-down for ranks that a test has killed.
        os._exit(0)
