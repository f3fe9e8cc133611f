"""Cases verified by a Dask cluster: the same results as here, nothing lost or counted twice when a worker dies."""

from __future__ import annotations

import os
import re
import signal
import warnings

import pytest
from tests.failures.catalogues import FAMILY, SLUG, copy_catalogue
from typer.testing import CliRunner

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")

from shardproof.cli.main import app  # noqa: E402
from shardproof.errors import InvalidValueError  # noqa: E402
from shardproof.failures import cluster  # noqa: E402
from shardproof.failures.cluster import BATCH, ClusterError, run_on_cluster  # noqa: E402
from shardproof.failures.mechanism import load_mechanism  # noqa: E402
from shardproof.failures.plan import load, plan_case  # noqa: E402
from shardproof.failures.verification import Effort, verify_cases  # noqa: E402
from shardproof.isolation import IsolationUnavailableError  # noqa: E402

pytestmark = pytest.mark.processes
CASES = 24


@pytest.fixture(scope="module")
def workers():
    """Two worker processes of one thread each, on this machine; gone after."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        yield made
        made.close(timeout=30)


@pytest.fixture
def planned(tmp_path):
    catalogue, members = copy_catalogue(tmp_path)
    loaded = load(load_mechanism(catalogue / FAMILY / SLUG), members)
    return [plan_case(loaded, f"{SLUG}/{n}", n) for n in range(1, CASES + 1)]


def verified(plans, **effort):
    found = []
    summary = verify_cases(plans, Effort(**effort), sink=found.append)
    assert summary.cases == summary.ran == len(found) == len({one.id for one in found})
    return {one.id: one.model_dump(exclude={"time"}) for one in found}, summary


def test_a_cluster_that_loses_a_worker_gives_what_this_machine_gives(workers, planned):
    """A worker is killed after the first case has ended: each case comes once, with the local result."""
    here, _ = verified(planned, jobs=2)
    victims = [worker.pid for worker in workers.workers.values()]
    found = []

    def sink(result):
        if not found:
            os.kill(victims[0], signal.SIGKILL)
        found.append(result)

    effort = Effort(scheduler=workers.scheduler_address)
    summary = verify_cases(planned, effort, sink=sink)
    assert (summary.cases, summary.ran, summary.verdict) == (CASES, CASES, "held")
    assert len(found) == CASES
    assert {one.id: one.model_dump(exclude={"time"}) for one in found} == here


def test_workers_hold_programs_as_the_level_says(workers, planned):
    """Level process reaches the workers, and so do repeats."""
    results, summary = verified(planned[:1], level="process", repeat=2, scheduler=workers.scheduler_address)
    assert summary.isolation.achieved == "process"
    assert [program["runs"] for program in results[planned[0].content.id]["programs"]] == [2] * len(planned[0].programs)


def test_programs_that_kill_worker_after_worker_have_no_verdict(workers):
    """The batch is given up, not tried for ever, and each of its programs is told once."""
    kill = KILLER
    found = list(run_on_cluster([(n, kill) for n in range(2)], scheduler=workers.scheduler_address, level="none"))
    assert [(token, run.record.ending) for token, run in found] == [(0, "supervisor lost"), (1, "supervisor lost")]
    assert "every worker" in found[0][1].record.detail


KILLER = b"""
import os, signal, time
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
# Program, its supervisor, the worker.
os.kill(parent(parent(os.getpid())), signal.SIGKILL)
time.sleep(1000)
"""


def test_more_programs_than_the_cluster_has_room_for_come_back_once(workers):
    """The window of batches moves on; programs are not all taken at the beginning."""
    asked = []

    def programs():
        for number in range(7 * BATCH):
            asked.append(number)
            yield number, b"print(1)"

    running = run_on_cluster(programs(), scheduler=workers.scheduler_address, level="process")
    first = next(running)
    assert len(asked) <= 5 * BATCH
    assert sorted(token for token, _ in [first, *running]) == list(range(7 * BATCH))


def test_a_level_that_a_worker_cannot_have_is_no_verdict(workers):
    """The worker's refusal is ours."""
    with pytest.raises(IsolationUnavailableError, match="level='cellar'"):
        list(run_on_cluster([(1, b"pass")], scheduler=workers.scheduler_address, level="cellar"))


def test_workers_of_another_python_are_refused(workers, monkeypatch):
    """A result says which Python it is of; one from elsewhere would lie."""
    monkeypatch.setattr(cluster, "identity", lambda: ("CPython", "2.7.18", "pdp11", "shardproof 0"))
    with pytest.raises(ClusterError, match=r"Expected workers with CPython, 2\.7\.18"):
        list(run_on_cluster([(1, b"pass")], scheduler=workers.scheduler_address, level="none"))


def test_a_scheduler_that_is_not_there_is_said(monkeypatch):
    """Nothing is run, and the address is named."""
    for no_address in ("127.0.0.1:port", "scheduler", "tcp://h:1/x"):
        with pytest.raises(InvalidValueError, match=re.escape(repr(no_address))):
            list(run_on_cluster([(1, b"pass")], scheduler=no_address, level="none"))
    monkeypatch.setattr(cluster, "CONNECT_S", 1.0)
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:9"):
        list(run_on_cluster([(1, b"pass")], scheduler="tcp://127.0.0.1:9", level="none"))
    command = ["map", "verify", f"{SLUG}/2", "--fresh", "--scheduler", "tcp://127.0.0.1:9"]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, "could not tell: Expected a Dask scheduler" in done.output) == (3, True), done.output
