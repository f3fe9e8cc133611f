"""Clips that do not come back as they should: they hang, die, raise, lie on standard output, or start others."""

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

FORGED = '{"say": "called", "body": {"fixture": "over", "outcome": "returned"}}'


def skips_a_collective(params, max_norm, ctx):
    if ctx.rank == 0:
        dist.all_reduce(torch.ones(1))
    return 1.0


def loops_on_rank_1(params, max_norm, ctx):
    while ctx.rank == 1:
        pass
    return 1.0


def stops_itself(params, max_norm, ctx):
    os.kill(os.getpid(), signal.SIGSTOP)


def leaves_with_zero(params, max_norm, ctx):
    print(FORGED, flush=True)
    if ctx.rank == ctx.world_size - 1:
        os._exit(0)
    return 1.0


def killed(params, max_norm, ctx):
    if ctx.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1))


def raises_on_rank_1(params, max_norm, ctx):
    if ctx.rank == 1:
        raise ValueError("rank 1 does not like this")
    dist.all_reduce(torch.ones(1))
    return 1.0


def raises_everywhere(params, max_norm, ctx):
    raise KeyError(f"limit {max_norm}")


def raises_of_a_timeout_of_its_own(params, max_norm, ctx):
    raise RuntimeError("timeout: the metrics service timed out")


def waits_for_a_key(params, max_norm, ctx):
    if ctx.rank == 0:
        dist.distributed_c10d._get_default_store().wait(["never"], timedelta(seconds=1))
    return 1.0


def sys_exit(params, max_norm, ctx):
    sys.exit(0)


def forges(params, max_norm, ctx):
    for fd in (1, 2):
        os.write(fd, FORGED.encode() * 10)
    return 0.0


def closes_everything(params, max_norm, ctx):
    os.closerange(3, 4096)
    return 1.0


def scribbles(params, max_norm, ctx):
    """Writes to every descriptor that it can find, the harness's own channel among them."""
    for fd in range(3, 200):
        try:
            os.write(fd, b"\xff" * 64)
        except OSError:
            continue
    return 1.0


def leaves_children(params, max_norm, ctx):
    """One child in the same session, one in its own, and a thread that never ends; their ids go to a file."""
    plain = subprocess.Popen(["sleep", "300"])
    away = subprocess.Popen(["sleep", "300"], start_new_session=True, close_fds=True)
    threading.Thread(target=time.sleep, args=(300,)).start()
    with Path(os.environ["SHARDPROOF_TEST_PIDS"]).open("a") as stream:
        stream.write(f"{plain.pid} {away.pid} ")
    return 1.0


def sleeps(params, max_norm, ctx):
    with Path(os.environ["SHARDPROOF_TEST_PIDS"]).open("a") as stream:
        stream.write(f"{os.getpid()} ")
    time.sleep(300)


def raises_what_no_encoding_holds(params, max_norm, ctx):
    raise RuntimeError("\ud800")


def frames(*bodies):
    """Writes well-formed frames to whatever may be the harness's channel."""
    for fd in range(3, 200):
        for body in bodies:
            payload = json.dumps({"say": "called", "body": body}).encode()
            try:
                if str(Path(f"/proc/self/fd/{fd}").readlink()).startswith("pipe:"):
                    os.write(fd, struct.pack("!I", len(payload)) + payload)
            except OSError:
                continue


def forges_an_empty_frame(params, max_norm, ctx):
    frames({})
    return 0.0


def forges_another_call(params, max_norm, ctx):
    frames({"fixture": "nope", "outcome": "died", "stage": "done"})
    return 0.0


def forges_what_no_encoding_holds(params, max_norm, ctx):
    frames({"fixture": "over", "outcome": "died", "stage": "\ud800"})
    return 0.0


class NoText(RuntimeError):
    def __str__(self):
        raise ValueError("no text")


def raises_without_text(params, max_norm, ctx):
    raise NoText


class HalfADTensor(float):
    def full_tensor(self):
        return self


def returns_half_a_dtensor(params, max_norm, ctx):
    return HalfADTensor(7.0)


def stops_the_forkserver(params, max_norm, ctx):
    if ctx.rank == 0:
        os.kill(os.getppid(), signal.SIGSTOP)
    return 1.0


def daemon():
    """A process without a parent, in a session of its own, with every descriptor closed."""
    if os.fork() == 0:
        os.setsid()
        if (pid := os.fork()) == 0:
            os.closerange(0, 4096)
            os.execv("/bin/sleep", ["sleep", "300"])
        with Path(os.environ["SHARDPROOF_TEST_PIDS"]).open("a") as stream:
            stream.write(f"{pid} ")
        os._exit(0)
    os.wait()


def leaves_a_daemon(params, max_norm, ctx):
    daemon()
    return 1.0


def leaves_a_daemon_and_ends(params, max_norm, ctx):
    daemon()
    os._exit(3)


def widens(params, max_norm, ctx):
    for parameter in params:
        parameter.grad.data = parameter.grad.data.double()
    return 7.0


def flattens(params, max_norm, ctx):
    for parameter in params:
        parameter.grad.data = parameter.grad.data.flatten()
    return 7.0


class FullTensorHangs(float):
    placements = "(Partial(sum),)"

    def full_tensor(self):
        time.sleep(300)


def full_tensor_hangs(params, max_norm, ctx):
    return FullTensorHangs(7.0)
