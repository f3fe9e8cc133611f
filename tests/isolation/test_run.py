"""Every way a program that is not trusted can end has its verdict; nothing hangs and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from shardproof.isolation import IsolationUnavailableError, Limits, many, namespaces, run_isolated, run_many
from shardproof.isolation import run as run_module

SHORT = Limits(wall_s=60.0, cpu_s=1, processes=12, output_bytes=100_000)
ROOT = os.name == "posix" and os.geteuid() == 0
LINUX = sys.platform.startswith("linux")
pytestmark = pytest.mark.skipif(not LINUX, reason="process trees are followed through Linux's /proc")


def run(source: str, *, way: str = "started", **options):
    """Run by `run_isolated`, at level process or namespaces, or as the only program of `run_many`."""
    program = textwrap.dedent(source).encode() if isinstance(source, str) else source
    options = {"limits": SHORT, **options}
    if way == "forked":
        [(key, seen)] = run_many([("it", program)], **options)
        assert key == "it"
        return seen
    return run_isolated(program, **options | ({"level": "namespaces"} if way == "namespaces" else {}))


NAMESPACES = pytest.param(
    "namespaces",
    marks=pytest.mark.skipif(namespaces.missing() is not None, reason=f"no namespaces here: {namespaces.missing()}"),
)
WAYS = pytest.mark.parametrize("way", ["started", "forked", NAMESPACES])
BOTH = pytest.mark.parametrize("way", ["started", "forked"])


def strays(place: Path) -> list[str]:
    """What is alive with a run's marker in its environment and a run below `place` in its command."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            ours = str(place) in command or ("nursery.py" in command and _below_us(folder.name))
            if f"{run_module.MARKER}=".encode() in (folder / "environ").read_bytes() and ours:
                found.append(command)
        except OSError:
            continue
    return found


def _below_us(pid: str) -> bool:
    """Whether a process has this one above it, or has lost its parent."""
    above = [pid]
    while above[-1] not in ("0", "1", str(os.getpid())):
        above.append(Path("/proc", above[-1], "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return above[-1] == str(os.getpid()) or above[1:] == ["1"]


def below(pid: int) -> list[int]:
    """The processes below one."""
    found = [pid]
    for above in found:
        for task in Path("/proc", str(above), "task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found[1:]


def children() -> set[str]:
    """This process's children, zombies included."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.add(folder.name)
    return found


@pytest.fixture
def place(monkeypatch):
    """A folder for temporary files that every user may enter, as /tmp is, and that is this test's alone."""
    folder = Path(tempfile.mkdtemp(prefix="shardproof-test-"))
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    folder.rmdir()


@pytest.fixture(autouse=True)
def _nothing_stays(place):
    """After each test no stray process, no zombie and no folder of a run is left."""
    before = children()
    yield
    assert strays(place) == []
    assert children() <= before
    assert list(place.iterdir()) == []


ENDINGS = {
    "exits": ("print(1)", "exited", 0),
    "exits with a code": ("raise SystemExit(7)", "exited", 7),
    "kills itself": ("import os; os.kill(os.getpid(), 15)", "signal", None),
    "loops": ("while True: pass", "cpu time", None),
    "loops and ignores the warning": (
        "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "cpu time",
        None,
    ),
    "sleeps": ("import time; time.sleep(1000)", "wall time", None),
    "stops itself": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "wall time", None),
    "ignores every signal": (
        "import signal, time\nfor s in set(signal.Signals) - {9, 19}: signal.signal(s, signal.SIG_IGN)\ntime.sleep(99)",
        "wall time",
        None,
    ),
    "floods standard output": ("while True: print('x' * 1000)", "output", None),
    "floods standard error": ("import os\nwhile True: os.write(2, b'x' * 1000)", "output", None),
    "floods and exits at once": ("import os; os.write(1, b'x' * 60000); os.write(1, b'x' * 60000)", "output", None),
    "takes memory": ("x = b'x' * 10**10", "memory", 1),
    "reads standard input": ("import sys; assert sys.stdin.read() == ''", "exited", 0),
    "writes a large file": ("open('f', 'wb').truncate(10**9)", "exited", 1),
    "is no Python": ("this is not Python", "exited", 1),
    "closes its output": ("import os; os.close(1); os.close(2); raise SystemExit(3)", "exited", 3),
    "forks a bomb": ("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", "wall time", None),
    "forks and leaves": ("import os, time\nif os.fork() == 0: time.sleep(1000)", "left processes", 0),
    "daemonises": (
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        time.sleep(0.1)
        """,
        "left processes",
        0,
    ),
    "daemonises with an empty environment": (
        """
        import os, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)"], {})
            os._exit(0)
        time.sleep(0.3)
        """,
        "left processes",
        0,
    ),
    "forks a chain that never ends": (
        """
        import os
        while True:
            try:
                if os.fork():
                    os._exit(0)
                os.setsid()
            except OSError:
                pass
        """,
        "left processes",
        0,
    ),
}


@pytest.mark.processes
@WAYS
@pytest.mark.parametrize("what", ENDINGS)
def test_every_ending_has_its_verdict(what, way):
    """Each program ends in exactly the verdict that it earned, within the limits."""
    source, ending, code = ENDINGS[what]
    limits = Limits(wall_s=1.5 if ending == "wall time" else 60.0, cpu_s=1, processes=12, output_bytes=100_000)
    record = run(source, limits=limits, way=way).record
    assert (record.ending, record.exit_code) == (ending, code), record
    assert record.unkilled_processes == 0
    assert record.isolation.requested == record.isolation.achieved == ("process" if way != "namespaces" else way)


@pytest.mark.processes
@WAYS
def test_the_source_is_run_exactly_as_given_in_an_empty_place(way):
    """Bytes are not decoded on the way; the environment holds the marker only, the folder nothing."""
    source = b"# -*- coding: latin-1 -*-\nimport os\nprint(ascii('\xe9'), os.listdir(), sorted(os.environ))"
    seen = run(source, way=way)
    assert seen.record.ending == "exited", seen
    said = seen.stdout.decode()
    assert said.startswith("'\\xe9' [] [")
    assert set(eval(said.split("[] ")[1])) <= {run_module.MARKER, "LC_CTYPE"}


@pytest.mark.processes
@BOTH
def test_the_output_is_cut_at_its_limit_and_not_before(way):
    """A program that writes just the limit has not flooded."""
    just = run("import os; os.write(1, b'x' * 100_000)", way=way)
    over = run("import os; os.write(1, b'x' * 100_001)", way=way)
    assert (just.record.ending, len(just.stdout)) == ("exited", 100_000)
    assert (over.record.ending, len(over.stdout)) == ("output", 100_000)


@pytest.mark.processes
@BOTH
@pytest.mark.skipif(not ROOT, reason="only root can run a program as another user")
def test_as_root_the_program_is_a_user_of_its_own(place, way):
    """It cannot kill its parent, write to our files, or get its privileges back; the record says who it was."""
    target = place / "ours"
    target.write_text("ours")
    seen = run(
        f"""
        import os
        print(os.getresuid(), os.getresgid(), os.getgroups())
        for act in (lambda: os.kill(os.getppid(), 9), lambda: open({str(target)!r}, "w"), lambda: os.setuid(0)):
            try:
                act()
                print("done")
            except PermissionError:
                print("refused")
        """,
        way=way,
    )
    user = seen.record.isolation.user
    assert user is not None
    assert seen.stdout.decode().splitlines() == [f"{(user,) * 3} {(user,) * 3} []", *["refused"] * 3]
    assert target.read_text() == "ours"
    target.unlink()


@pytest.mark.processes
@BOTH
@pytest.mark.skipif(not ROOT, reason="files outside the folder are found by their owner, a user of its own")
def test_what_it_wrote_elsewhere_is_named_and_removed(way):
    """Files and folders in places that every user may write are found by their owner."""
    name = f"shardproof-stray-{os.getpid()}"
    seen = run(f"import os\nos.makedirs('/tmp/{name}/a/b')\nopen('/dev/shm/{name}', 'w')", way=way)
    assert seen.record.wrote_elsewhere == (f"/dev/shm/{name}", f"/tmp/{name}")
    assert f"wrote outside its folder: /dev/shm/{name}" in seen.record.detail
    assert not Path("/tmp", name).exists()
    assert not Path("/dev/shm", name).exists()


@pytest.mark.processes
@WAYS
def test_what_it_wrote_in_its_folder_is_counted_and_removed_however_deep(way):
    """A nesting deeper than a path can be long, and folders without permissions, are removed all the same."""
    seen = run(
        """
        import os
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
        open("f", "w").close()
        os.chmod(".", 0)
        """,
        way=way,
    )
    assert seen.record.ending == "exited", seen
    assert seen.record.wrote_in_folder == 3001


@pytest.fixture
def same_user(monkeypatch):
    """The program runs as the caller itself, as it does wherever the caller is not root."""
    for module in (run_module, many):
        monkeypatch.setattr(module, "needs_user", lambda level: False)


@pytest.mark.processes
@BOTH
@pytest.mark.usefixtures("same_user")
def test_a_program_that_kills_its_supervisor_is_named_and_cleared_away(way):
    """As the same user it can; the run ends without a verdict on it, and its descendants die too."""
    record = run(
        """
        import os, signal, time
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)
        """,
        way=way,
    ).record
    assert record.ending == "supervisor lost", record
    assert "SIGKILL" in record.detail
    assert record.exit_code is None


@pytest.mark.processes
@BOTH
@pytest.mark.usefixtures("same_user")
@pytest.mark.skipif(not ROOT, reason="elsewhere the kernel does limit the processes")
def test_what_the_level_could_not_do_is_said(way):
    """Root that cannot drop has no limit on processes, and the record does not claim one."""
    isolation = run("print(1)", way=way).record.isolation
    assert isolation.user is None
    assert not any(line.startswith("processes and threads") for line in isolation.enforced)
    assert any("number of processes" in line for line in isolation.not_enforced)
    assert any("outside its own folder" in line for line in isolation.not_enforced)


@pytest.mark.processes
@pytest.mark.usefixtures("same_user")
@pytest.mark.skipif(ROOT, reason="root may open every pipe; the test as an ordinary user below does the same")
def test_the_report_cannot_be_forged_through_the_supervisors_pipes():
    """Even the same user cannot open the supervisor's standard output (root can: it may do anything)."""
    source = (
        "import os\ntry: open(f'/proc/{os.getppid()}/fd/1', 'w'); print('opened')\n"
        "except PermissionError: print('refused')"
    )
    assert run(source).stdout == b"refused\n"


UNPRIVILEGED = """
import os, sys
sys.path.insert(0, {src!r})
from shardproof.isolation import confine
os.umask(0o022)
user = 61183
confine._become(user, {folder!r})
confine._let_it_read([sys.executable, os.__file__], {folder!r})
os.environ["TMPDIR"] = {folder!r}
os.execv(sys.executable, [sys.executable, "-B", "-c", {program!r}])
"""
PROGRAM = """
import os, sys
sys.path.insert(0, {src!r})
from shardproof.isolation import Limits, run_isolated
import shardproof.isolation.run as module
module.PATIENCE_S = 3.0
for source, ending, wall_s in [
    (b"print(1)", "exited", 60),
    (b"import os\\nwhile True:\\n  try: os.fork()\\n  except OSError: pass", "wall time", 1),
    (b"import os, time\\nif os.fork() == 0: os.setsid(); time.sleep(1000)", "left processes", 60),
    (b"import os, time; os.kill(os.getppid(), 9); time.sleep(1000)", "supervisor lost", 60),
    (b"import os, signal, time; os.kill(os.getppid(), signal.SIGSTOP); time.sleep(1000)", "supervisor lost", 1),
]:
    record = run_isolated(source, limits=Limits(wall_s=wall_s, cpu_s=5, processes=12)).record
    assert record.ending == ending, record
    assert os.geteuid() != 0 and record.isolation.user is None
    if ending == "exited":
        assert any(line.startswith("processes and threads 12") for line in record.isolation.enforced), record
seen = run_isolated(b"import os\\ntry: open(f'/proc/{{os.getppid()}}/fd/1', 'w'); print('opened')\\n"
                    b"except PermissionError: print('refused')")
assert seen.stdout == b"refused\\n", seen
assert os.listdir(os.environ["TMPDIR"]) == []
print("all as an ordinary user")
"""


@pytest.mark.processes
@pytest.mark.skipif(not ROOT, reason="becoming an ordinary user takes root; without it all other tests already are")
def test_an_ordinary_user_has_the_same_verdicts():
    """The level without a user of its own: limits hold, the tree dies, a lost or stopped supervisor is named."""
    src, folder = str(Path(run_module.__file__).parents[2]), Path(tempfile.mkdtemp())
    program = PROGRAM.format(src=src)
    try:
        launcher = UNPRIVILEGED.format(src=src, folder=str(folder), program=program)
        done = subprocess.run([sys.executable, "-B", "-c", launcher], capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == "all as an ordinary user", done.stderr
    finally:
        folder.rmdir()


@pytest.mark.processes
def test_level_none_holds_only_what_it_says():
    """Asked for explicitly: the environment and the user are the caller's; the tree still ends."""
    os.environ["SHARDPROOF_TEST_MARK"] = "here"
    try:
        seen = run("import os; print(os.environ['SHARDPROOF_TEST_MARK'], os.getuid())", level="none")
    finally:
        del os.environ["SHARDPROOF_TEST_MARK"]
    assert seen.stdout.decode().split() == ["here", str(os.getuid())]
    assert seen.record.isolation.achieved == "none"
    assert not any("cpu" in line for line in seen.record.isolation.enforced)
    assert run("import os, time\nif os.fork() == 0: time.sleep(1000)", level="none").record.ending == "left processes"


def test_an_unknown_level_runs_nothing():
    """A level that cannot be had is refused before anything starts."""
    with pytest.raises(IsolationUnavailableError, match="level='virtual machine'"):
        run_isolated(b"print(1)", level="virtual machine")


HARNESS = """
import sys
from shardproof.isolation import Limits, run_isolated, run_many
print("started", flush=True)
source, limits = b"import os, time\\nif os.fork() == 0: os.setsid()\\ntime.sleep(1000)", Limits(wall_s=100)
{call}
"""
CALLS = {
    "started": "run_isolated(source, limits=limits)",
    "forked": "list(run_many([(1, source)], limits=limits))",
}


@pytest.mark.processes
@BOTH
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_harness_leaves_nothing_behind(how, place, way):
    """The supervisor outlives the caller just long enough to kill the tree and remove the folder."""
    program = HARNESS.format(call=CALLS[way])
    harness = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert harness.stdout is not None
    assert harness.stdout.readline() == b"started\n"
    # A forked program names no folder in its command: there it is the two processes of the program that are waited for.
    while len(below(harness.pid)) < (3 if way == "started" else 4):
        time.sleep(0.02)
    harness.send_signal(how)
    _, said = harness.communicate(timeout=30)
    if how == signal.SIGINT:
        assert said.strip().endswith(b"KeyboardInterrupt"), said
        assert b"FileNotFoundError" not in said
    patience = time.monotonic() + 30
    while (strays(place) or list(place.iterdir())) and time.monotonic() < patience:
        time.sleep(0.02)
