"""The level `namespaces`: what a program inside sees, and what is said where the level cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.isolation.test_run import ROOT, SHORT, _nothing_stays, place, run  # noqa: F401

from shardproof.isolation import IsolationUnavailableError, namespaces, run_isolated, run_many

pytestmark = pytest.mark.processes
REASON = namespaces.missing()
HERE = pytest.mark.skipif(REASON is not None, reason=f"no namespaces here: {REASON}")


def inside(source: str) -> str:
    seen = run(source, way="namespaces")
    assert seen.record.ending == "exited", seen
    assert seen.record.isolation.achieved == "namespaces"
    return seen.stdout.decode()


@HERE
def test_there_is_no_network():
    """A loopback of its own, on which nothing of ours listens; no way out."""
    said = inside(
        """
        import socket
        print([name for _, name in socket.if_nameindex()])
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=5)
        except OSError as error:
            print(error.strerror)
        """
    )
    assert said == "['lo']\nNetwork is unreachable\n"


@HERE
def test_the_system_is_read_only_and_holds_no_home():
    """Nothing outside the folder and the private places can be written, and our files are not there to be read."""
    said = inside(
        f"""
        import os, sys
        def can_write(folder):
            try:
                open(os.path.join(folder, "x"), "w").close()
            except OSError as error:
                return error.strerror
            return True
        print(can_write("/usr"), can_write("/etc"), can_write("/"), can_write(sys.prefix), can_write("."))
        print(os.path.exists({__file__!r}), os.path.exists("/etc/passwd"), os.path.exists("/home"))
        print(can_write("/tmp"), can_write("/var/tmp"), [name for name in os.listdir("/tmp") if name == "x"])
        """
    )
    refused = said.splitlines()[0].split(" ")
    assert refused[-1] == "True"
    assert said.splitlines()[0].count("True") == 1
    assert said.splitlines()[1:] == ["False False False", "True True ['x']"]
    assert not Path("/tmp/x").exists()


@HERE
def test_only_its_own_processes_are_there():
    """Ours are not to be seen, let alone signalled."""
    assert (
        inside(
            f"""
        import os
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        print(len(pids) < 6, os.path.exists("/proc/{os.getpid()}") and {os.getpid()} > 9)
        """
        )
        == "True False\n"
    )


@HERE
def test_many_programs_take_the_level_too():
    """Each is started by itself; keys and verdicts are those of any level."""
    found = dict(run_many([(n, b"print(%d)" % n) for n in range(3)], level="namespaces", jobs=2, limits=SHORT))
    assert {key: run.stdout for key, run in found.items()} == {n: b"%d\n" % n for n in range(3)}
    assert {run.record.isolation.achieved for run in found.values()} == {"namespaces"}
    assert not any("network" in line for run in found.values() for line in run.record.isolation.not_enforced)


@HERE
@pytest.mark.skipif(not ROOT, reason="only root keeps capabilities that a program must not have")
def test_root_without_a_user_for_the_program_is_refused(monkeypatch):
    """Root inside could undo the namespaces."""
    from shardproof.isolation import run as run_module

    monkeypatch.setattr(run_module, "own_users", lambda: iter([None]))
    with pytest.raises(IsolationUnavailableError, match="free uid"):
        run_isolated(b"print(1)", level="namespaces")


@pytest.fixture
def tools(tmp_path_factory, monkeypatch, place):  # noqa: F811
    """A PATH with nothing on it; what stood in memory about the level is forgotten before and after."""
    folder = place / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    namespaces.missing.cache_clear()
    yield folder
    namespaces.missing.cache_clear()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_without_bubblewrap_the_level_is_refused_with_the_reason(tools):
    """Nothing is run in its place."""
    with pytest.raises(IsolationUnavailableError, match="bwrap is not on PATH"):
        run_isolated(b"print(1)", level="namespaces")
    with pytest.raises(IsolationUnavailableError, match="bwrap is not on PATH"):
        list(run_many([(1, b"print(1)")], level="namespaces"))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ('while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "were still seen"),
    ],
)
def test_a_bubblewrap_that_does_not_hold_is_refused_with_its_words(tools, script, reason):
    """One that the kernel refuses, and one that starts the program without holding it: it is tried, not believed."""
    (tools / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (tools / "bwrap").chmod(0o755)
    with pytest.raises(IsolationUnavailableError, match=reason):
        run_isolated(b"print(1)", level="namespaces")


def test_the_commands_exit_3_where_the_level_cannot_be_had(tools):
    """`map verify` and `map show` say why; nothing is verified at a lesser level."""
    for arguments in (["verify", "local-shard-clip", "--fresh"], ["show", "local-shard-clip/2"]):
        command = [sys.executable, "-m", "shardproof", "map", *arguments, "--level", "namespaces"]
        environment = {"PATH": str(tools), "XDG_CACHE_HOME": str(tools / "cache")}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=100)
        assert done.returncode == 3, done
        assert "could not tell" in done.stderr
        assert "bwrap is not on PATH" in done.stderr
