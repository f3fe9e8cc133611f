"""Many programs forked from warm interpreters: each counted once, apart from the others, and no trace of any."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from tests.isolation.test_run import BOTH, LINUX, ROOT, SHORT, _nothing_stays, place, run, same_user  # noqa: F401

from shardproof.isolation import many, run_many

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not LINUX, reason="programs are forked where process trees are followed through Linux's /proc"),
]


def many_of(*sources: str, **options):
    programs = [(number, textwrap.dedent(source).encode()) for number, source in enumerate(sources)]
    return list(run_many(programs, **{"limits": SHORT, **options}))


def nurseries() -> list[int]:
    """The nurseries that this process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"nursery.py" in command and parent == os.getpid():
            found.append(int(folder.name))
    return found


def test_each_program_comes_back_once_in_the_order_of_their_ends():
    """Whatever one does, the others are run; keys and results belong together."""
    sources = ["import time; time.sleep(1.5); print(0)", *(f"print({n})" for n in range(1, 8)), "import os; os.abort()"]
    found = many_of(*sources, jobs=2)
    assert sorted(key for key, _ in found) == list(range(9))
    assert found[0][0] != 0
    assert {key: run.stdout for key, run in found} == {n: f"{n}\n".encode() for n in range(8)} | {8: b""}
    assert dict(found)[8].record.signal == "SIGABRT"


def test_programs_are_taken_as_room_is_free():
    """A window of them: no more are asked for than run, however many there are."""
    asked = []

    def endless():
        while True:
            asked.append(len(asked))
            yield len(asked), b"pass"

    running = run_many(endless(), jobs=2, limits=SHORT)
    for ended in range(1, 6):
        next(running)
        assert len(asked) <= ended + 2
    running.close()


def test_what_is_not_wanted_any_more_is_killed_and_removed():
    """A caller that stops listening leaves no process and no folder; the fixture looks."""
    running = run_many([(0, b"pass"), (1, b"import time\ntime.sleep(1000)"), (2, b"pass")], jobs=2, limits=SHORT)
    while next(running)[0] != 2:
        pass
    running.close()
    assert nurseries() == []


def test_a_lost_nursery_costs_its_program_one_more_run_and_no_more(place, monkeypatch):  # noqa: F811
    """Killed from outside while a program runs: that one is run again, all come back once."""
    began = place / "began"
    began.mkdir()
    monkeypatch.setattr(many, "needs_user", lambda level: False)
    slow = f"import os, time; open(f'{began}/{{os.getpid()}}', 'w').close(); time.sleep(1); print('slow')"
    running = run_many([("slow", slow.encode()), ("quick", b"print('quick')")], jobs=1, limits=SHORT)

    def kill_once():
        while not list(began.iterdir()):
            time.sleep(0.01)
        [nursery] = nurseries()
        os.kill(nursery, signal.SIGKILL)

    killer = threading.Thread(target=kill_once)
    killer.start()
    found = [(key, run.record.ending, run.stdout) for key, run in running]
    killer.join()
    assert found == [("slow", "exited", b"slow\n"), ("quick", "exited", b"quick\n")]
    assert len(list(began.iterdir())) == 2
    shutil.rmtree(began)


@pytest.mark.usefixtures("same_user")
def test_a_program_that_kills_its_nursery_each_time_is_lost_and_the_others_are_not():
    """As the same user it can; it has no verdict, and its neighbours have theirs."""
    killer = """
        import os, signal, time
        parent = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1]
        os.kill(int(parent), signal.SIGKILL)
        time.sleep(1000)
        """
    found = dict(many_of("print(1)", killer, "print(2)", "print(3)", jobs=2))
    assert sorted(found) == [0, 1, 2, 3]
    assert found[1].record.ending == "supervisor lost", found[1]
    assert [found[n].stdout for n in (0, 2, 3)] == [b"1\n", b"2\n", b"3\n"]


SECRET = "held-back-" + "5c8f"
SEARCH = """
import os
wanted = "held-" + "back-" + "5c" + "8f"
wanted = wanted.encode()
found = 0
with open("/proc/self/mem", "rb", 0) as memory:
    for line in open("/proc/self/maps"):
        span, rights = line.split()[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        if rights.startswith("r") and end - start < 1 << 28 and "[v" not in line:
            try:
                memory.seek(start)
                found += memory.read(end - start).count(b"%s" % wanted) - (b"x" in b"y")
            except (OSError, ValueError, OverflowError):
                pass
print(found > {own})
"""


def test_no_program_finds_another_in_its_memory():
    """The nursery reads no program and no output; what a program itself holds is found, so the search works."""
    search = SEARCH.replace("{own}", "4")
    holds = f"kept = [bytes([*{SECRET.encode()!r}]) + bytes(1) for _ in range(50)]\n{search}"
    tells = f"text = {SECRET!r}\nprint(text * 100)"
    found = many_of(holds, tells, search, search, jobs=1)
    assert [run.stdout for _, run in found if run.stdout != (SECRET * 100 + "\n").encode()] == [
        b"True\n",
        b"False\n",
        b"False\n",
    ], found


def test_a_program_has_its_three_streams_and_nothing_open_of_others():
    """Descriptors, capabilities, arguments and modules are those of a program that was started."""
    source = """
        import os, sys
        fds = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in range(64) if os.path.lexists(f"/proc/self/fd/{fd}")}
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(sorted(fds), fds[0], len(sys.argv), sys.argv[0] == __file__, __name__, __spec__)
        print([status[name].strip() for name in ("CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Threads")])
        print([name in sys.modules for name in ("warden", "confine", "shardproof")], sys.modules["__main__"].fds is fds)
        print(sys.flags, sys.path)
        """
    started = run(source)
    forked = run(source, way="forked")
    assert started.record.ending == forked.record.ending == "exited", (started, forked)
    assert forked.stdout == started.stdout
    assert forked.stdout.startswith(b"[0, 1, 2] /dev/null 1 True __main__ None\n")


@BOTH
@pytest.mark.parametrize(
    ("source", "said", "code"),
    [
        ("import atexit; atexit.register(print, 'last'); print('first')", b"first\nlast\n", 0),
        ("import threading, time\nthreading.Timer(0.2, print, ['late']).start(); print('first')", b"first\nlate\n", 0),
        ("class Kept:\n  def __del__(self): print('gone')\nkept = Kept(); raise SystemExit(3)", b"gone\n", 3),
        ("import os; print('x' * 10); os.close(1)", b"", 120),
        ("raise SystemExit('words')", b"", 1),
        ("import sys; sys.exit(300)", b"", 44),
        ("import sys; sys.excepthook = lambda *seen: print(len(seen)); 1 / 0", b"3\n", 1),
        ("def f(x: int): pass\nprint(f.__annotations__['x'] is int)", b"True\n", 0),
        ("import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)", b"True\n", 0),
    ],
)
def test_a_fork_ends_as_an_interpreter_does(source, said, code, way):
    """Threads, exit handlers, finalisers, flushes and exit codes."""
    seen = run(source, way=way)
    assert (seen.stdout, seen.record.exit_code, seen.record.ending) == (said, code, "exited"), seen


def test_last_words_are_the_programs_alone():
    """The same traceback as from an interpreter of its own, but for where the file lay."""
    source = "def inner():\n    raise ValueError('this')\n\n\ninner()"
    words = [run(source, way=way).record.stderr_tail.splitlines() for way in ("started", "forked")]
    assert [line for line in words[0] if "File" not in line] == [line for line in words[1] if "File" not in line]
    assert len(words[0]) == len(words[1])


def test_what_forks_share_is_said_and_apart_does_not_share_it():
    """One hash seed for all of a nursery; chance itself is not shared."""
    source = "import random; print(hash('a'), random.random())"
    shared = [run.stdout.split() for _, run in many_of(*[source] * 3)]
    assert len({line[0] for line in shared}) == 1
    assert len({line[1] for line in shared}) == 3
    assert len({run.stdout.split()[0] for _, run in many_of(*[source] * 3, apart=True)}) == 3
    forked, started = (run("pass", way=way).record.isolation for way in ("forked", "started"))
    assert any("hash seed" in line for line in forked.not_enforced)
    assert not any("hash seed" in line for line in started.not_enforced)
    assert set(forked.not_enforced) - set(started.not_enforced) == {
        line for line in forked.not_enforced if "hash seed" in line
    }


@pytest.mark.skipif(not ROOT, reason="only root can run programs as other users")
def test_as_root_siblings_are_different_users_who_cannot_reach_each_other():
    """No two programs have the same uid, and neither the next nor the nursery can be signalled or read."""
    source = """
        import os
        said = []
        for name in sorted(os.listdir("/proc")):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                command = open(f"/proc/{name}/cmdline", "rb").read()
                if b"nursery.py" not in command:
                    continue
                for act in (lambda: os.kill(int(name), 0), lambda: open(f"/proc/{name}/mem", "rb")):
                    try:
                        act()
                        said.append(name)
                    except PermissionError:
                        pass
            except OSError:
                pass
        print(os.getuid(), said)
        """
    found = many_of(*[source] * 6, jobs=3)
    users = {run.stdout.split()[0] for _, run in found}
    assert len(users) == 6
    assert all(run.stdout.endswith(b" []\n") for _, run in found), found


BUSY = """
import itertools
from shardproof.isolation import run_many
for key, _ in run_many(((n, b"open('kept', 'w').close()") for n in itertools.count()), jobs=3):
    print(key, flush=True)
"""


def test_a_harness_killed_between_programs_leaves_no_folder(place):  # noqa: F811
    """Killed at moments by chance: what is being made, has just ended or is being removed is removed."""
    for programs in (1, 4, 6, 9):
        with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as harness:
            for _ in range(programs):
                harness.stdout.readline()
            harness.kill()
        patience = time.monotonic() + 20
        while list(place.iterdir()) and time.monotonic() < patience:
            time.sleep(0.02)
        assert list(place.iterdir()) == []
