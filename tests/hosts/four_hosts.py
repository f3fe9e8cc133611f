"""The clip across four test hosts, and one of them cut off in the middle. Run by `make test-hosts`, as root.

The name keeps these tests out of `make test`: they need root, and change the machine (they make namespaces).
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.hosts.network import (
    INTERFACE,
    cut_off,
    existing,
    ip,
    namespaces,
    planned,
    remove_leftovers,
    running,
    why_not,
)
from tests.hosts.worker import CALLS, TIMEOUT

from shardproof.torch.roll_call import ASKING

HOSTS = 4
PATIENCE = 150.0
"""Seconds for what depends on how fast the machine starts processes."""

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


@pytest.fixture(scope="module", autouse=True)
def _able():
    """A machine that can make test hosts, or a skip that says what is missing."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def network():
    with running(planned(HOSTS, os.getpid())) as made:
        yield made


def rendezvous(kind, network, index):
    """The arguments of torchrun on one host: node ranks by hand, or found through c10d."""
    first = network.hosts[0].address
    if kind == "static":
        return [f"--node-rank={index}", f"--master-addr={first}", "--master-port=29400"]
    # All test hosts share one host name, so each is told its address and which of them is the meeting point.
    here = [f"--local-addr={network.hosts[index].address}", f"--rdzv-conf=is_host={int(index == 0)}"]
    return ["--rdzv-backend=c10d", f"--rdzv-endpoint={first}:29400", "--rdzv-id=hosts", *here]


def start(kind, network, folder):
    """Start torchrun on every host, each with one rank; their output goes to files."""
    return [_start_host(kind, network, folder, index) for index in range(len(network.hosts))]


def _start_host(kind, network, folder, index):
    host = network.hosts[index]
    worker = [str(Path(__file__).with_name("worker.py")), str(folder), str(index)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(network.hosts)}", "--nproc-per-node=1"]
    command = ["ip", "netns", "exec", host.name, *torchrun, *rendezvous(kind, network, index), *worker]
    settings = {"GLOO_SOCKET_IFNAME": INTERFACE, "OMP_NUM_THREADS": "1"}
    with (folder / f"output{index}.txt").open("w") as output:
        return subprocess.Popen(
            command, env=os.environ | settings, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


def reports(folder, kind, hosts, patience, started=()):
    """What the ranks on these hosts wrote; fails with the hosts' output when one ends without, or not in time."""
    paths = [folder / f"{kind}{host}.json" for host in hosts]
    end = time.monotonic() + patience
    while not all(path.exists() for path in paths):
        missing = [path.stem for path in paths if not path.exists()]
        ended = [host for host, process in enumerate(started) if process.poll() is not None]
        if ended or time.monotonic() > end:
            pytest.fail(f"no {missing} within {patience:g} s; torchrun ended on hosts {ended}\n{outputs(folder)}")
        time.sleep(0.1)
    return [json.loads(path.read_text()) for path in paths]


def outputs(folder):
    return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(folder.glob("output*.txt")))


def check_right(seen):
    """Every rank has the right norm and the right gradients, and what it sent went over the host's only link."""
    assert sorted(each["rank"] for each in seen) == list(range(HOSTS))
    for each in seen:
        assert len(each["calls"]) == 1 + CALLS
        assert all(call["norm"] == call["expected"] and call["clipped"] for call in each["calls"])
        assert each["links"] == sorted([INTERFACE, "lo"])
        assert each["bytes_sent"] > 0


@pytest.mark.parametrize(("kind", "lost"), [("static", 2), ("c10d", 3), ("static", 0)])
def test_a_host_is_cut_off(network, tmp_path, kind, lost):
    """Right on all hosts; then each rank that is left gets the error in time, and names the lost one.

    Host 0 holds the store of the run: when it is lost nobody can be asked, and the error says so.
    """
    started = start(kind, network, tmp_path)
    try:
        seen = reports(tmp_path, "right", range(HOSTS), PATIENCE, started)
        check_right(seen)
        cut_off(network, network.hosts[lost])
        left = [host for host in range(HOSTS) if host != lost]
        faults = reports(tmp_path, "fault", left, TIMEOUT + 2 * ASKING + 30)
        check_faults(faults, seen[lost]["rank"], lost == 0)
        # The host that was cut off finds out as well, by its own timeout.
        [own] = reports(tmp_path, "fault", [lost], TIMEOUT + 2 * ASKING + 30)
        assert (own["error"], own["untouched"]) == ("ParticipationError", True)
    finally:
        for process in started:
            process.kill()
            process.wait()


def check_faults(faults, lost, store_lost):
    for each in faults:
        assert each["error"] == "ParticipationError"
        assert each["untouched"]
        wanted = "the run's store does not answer either" if store_lost else f"ranks [{lost}] do not answer"
        assert wanted in each["text"], each["text"]


def fails_with_a_process_inside(made, inside):
    with running(made):
        inside.append(subprocess.Popen(["ip", "netns", "exec", made.hosts[0].name, "sleep", "600"]))
        assert set(namespaces(made)) <= set(existing())
        # Until the process has entered the namespace; before, nothing there tells of it.
        while not ip("netns", "pids", made.hosts[0].name).strip():
            time.sleep(0.05)
        raise ZeroDivisionError


def test_nothing_is_left_behind():
    """A run that fails, and one whose process was killed before it could clean up."""
    made, inside = planned(2, os.getpid()), []
    with pytest.raises(ZeroDivisionError):
        fails_with_a_process_inside(made, inside)
    assert inside[0].wait(timeout=10) == -signal.SIGKILL
    assert not set(namespaces(made)) & set(existing())
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    left = [name for name in existing() if f"-{killed.stdout.strip()}-" in name]
    assert len(left) == 3, killed.stderr
    remove_leftovers()
    assert not set(left) & set(existing())


KILLED = """
import os
from tests.hosts.network import planned, running
print(os.getpid(), flush=True)
with running(planned(2, os.getpid())):
    os.kill(os.getpid(), 9)
"""
