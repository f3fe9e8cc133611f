"""Candidates: repairs pass, wrong programs fail, and a candidate that attacks the judge does not score."""

from __future__ import annotations

import textwrap

import pytest
from tests.failures.catalogues import FAMILY, SLUG

from shardproof.errors import InvalidValueError
from shardproof.failures.candidates import (
    HeldBackError,
    judge_candidate,
    read_candidate,
    unseen_variants,
)
from shardproof.failures.channel import Answer, heard, program
from shardproof.failures.mechanism import (
    CATALOGUE,
    Check,
    checks_of,
    load_catalogue,
    load_mechanism,
    mechanism_folders,
    members_folder,
)
from shardproof.isolation import Limits

pytestmark = pytest.mark.processes
needs_members = pytest.mark.skipif(members_folder() is None, reason="repairs are held back: no members/ here")
FOLDER = CATALOGUE / FAMILY / SLUG
SHORT = Limits(wall_s=4.0, cpu_s=2)
RIGHT = """
import math

def right(shards, limit):
    norm = math.hypot(*(value for shard in shards for value in shard))
    if norm <= limit:
        return [[round(value, 12) for value in shard] for shard in shards]
    return [[round(value * limit / norm, 12) for value in shard] for shard in shards]
"""


def judged(text, *, folder=FOLDER, held_back=False, limits=SHORT, members=None):
    source = textwrap.dedent(text).encode() if isinstance(text, str) else text
    mechanism = load_mechanism(folder)
    where = members if members is not None else members_folder()
    return judge_candidate(mechanism, "SP-00001", 1, source, members=where, held_back=held_back, limits=limits)


def test_a_right_candidate_passes_whatever_it_prints():
    record = judged(
        RIGHT + "print('hello')\ndef solve(shards, limit):\n    print(limit)\n    return right(shards, limit)\n"
    )
    assert (record.verdict, record.passed, record.asked) == ("passes", 7, 7)
    assert not record.parts[0].problems


@pytest.mark.parametrize("role", ["failing", "unsuccessful"])
def test_the_wrong_programs_fail(role):
    record = judged((FOLDER / f"{role}.py").read_bytes())
    assert record.verdict == "fails"
    assert 0 < record.passed < record.asked


@needs_members
def test_every_repair_passes_the_held_back_checks_too():
    """The judge is as strict as the map's own: all repairs pass it, over unseen variants."""
    members = members_folder()
    for mechanism in load_catalogue():
        repair = (members / mechanism.slug / "repair.py").read_bytes()
        record = judge_candidate(mechanism, "SP-00001", 1, repair, members=members, held_back=True)
        assert record.verdict == "passes", (mechanism.slug, record)


@needs_members
def test_a_program_that_knows_the_visible_checks_fails_the_others():
    """Answers learnt by heart from the open tier pass what is visible and nothing more; and nothing is shown."""
    answers = {repr(list(check.arguments)): check.expected for check in checks_of(FOLDER / "checks.py", 1)}
    text = f"KNOWN = {answers!r}\ndef solve(*arguments):\n    return KNOWN.get(repr(list(arguments)), arguments[0])\n"
    assert judged(text).verdict == "passes"
    record = judged(text, held_back=True)
    assert record.verdict == "fails"
    visible, hidden, unseen = record.parts
    assert visible.passed == visible.asked
    assert hidden.passed < hidden.asked
    assert unseen.passed < unseen.asked
    assert not hidden.checks
    assert not unseen.checks


@needs_members
def test_a_candidate_cannot_carry_held_back_arguments_out():
    """Its errors' texts are its own; those of held-back parts are not passed on."""
    text = "import sys\nraise ValueError('asked: ' + repr(sys._getframe(1).f_globals['ASKED']))\n"
    record = judged("import dataclasses\nsys = dataclasses.sys\n" + text.replace("import sys\n", ""), held_back=True)
    assert "asked:" in " ".join(record.parts[0].problems)
    for part in record.parts[1:]:
        assert "asked:" not in part.model_dump_json()
        assert part.problems


def test_held_back_without_members_is_no_verdict(tmp_path):
    with pytest.raises(HeldBackError):
        judged(RIGHT, held_back=True, members=tmp_path)


def test_level_none_is_refused():
    with pytest.raises(InvalidValueError, match="holds nothing back"):
        judge_candidate(load_mechanism(FOLDER), "SP-00001", 1, b"", members=None, level="none")


def test_unseen_variants_are_not_published_and_need_the_repair():
    mechanism = load_mechanism(FOLDER)
    first, second = unseen_variants(mechanism, b"one"), unseen_variants(mechanism, b"another")
    assert first != second
    assert len(set(first)) == 3
    assert not set(first) & set(mechanism.says.variants)


def test_files_that_are_no_candidate(tmp_path):
    (tmp_path / "large.py").write_bytes(b"#" * (256 * 1024 + 1))
    for path in (tmp_path, tmp_path / "none.py", tmp_path / "large.py"):
        with pytest.raises(InvalidValueError):
            read_candidate(path)


# Ways to the answers, each tried by a program that gives the right ones as soon as it has them.
READING = """
def through_open():
    with open(PATH) as file:
        return file.read()

def through_os():
    import os
    return os.read(os.open(PATH, os.O_RDONLY), 100000).decode()

def through_a_closed_descriptor():
    import os
    os.close(0)
    return os.read(os.open(PATH, os.O_RDONLY), 100000).decode()

def through_a_raised_limit():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    return open(PATH).read()

def through_another_program():
    import os
    os.execv("/bin/sh", ["sh", "-c", "cat " + PATH])

def through_subprocess():
    import subprocess
    return subprocess.run(["cat", PATH], capture_output=True, text=True).stdout

def through_a_fork():
    import os
    os.fork()
    return open(PATH).read()

def through_import():
    import importlib.util
    spec = importlib.util.spec_from_file_location("checks", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def through_the_loader():
    import sys
    return sys.modules["_frozen_importlib_external"].SourceFileLoader("checks", PATH).get_data(PATH).decode()

def through_linecache():
    import linecache
    return "".join(linecache.getlines(PATH)) or 1 / 0

def through_the_net():
    import socket
    socket.socket()
    return open(PATH).read()

WAYS = [value for name, value in list(globals().items()) if name.startswith("through_")]

def answer(shards, limit):
    for way in WAYS:
        try:
            found = way()
            return right(shards, limit) if found else shards
        except BaseException:
            pass
    return "no way"
"""


@pytest.mark.parametrize("first", ["at import", "in solve"])
def test_answers_cannot_be_read_from_disk(first):
    """The same program, free, reads them by its first way; each way is tried alone, too, before solve is asked."""
    head = f"PATH = {str(FOLDER / 'checks.py')!r}\n{RIGHT}{READING}\n"
    if first == "at import":
        text = head + "FOUND = answer([[0]], 1)\ndef solve(shards, limit):\n    return FOUND\n"
        space: dict = {}
        exec(head + "FOUND = answer([[0]], 1)", space)
        assert space["FOUND"] == [[0]], "the attack works where nothing holds it"
    else:
        text = head + "def solve(shards, limit):\n    return answer(shards, limit)\n"
    record = judged(text)
    assert record.verdict == "fails"
    assert record.passed == 0
    assert {row.actual for row in record.parts[0].checks} <= {'"no way"', None}


ATTACKS = {
    "prints a forged report": """
        import json
        print(json.dumps({"observations": [], "passed": True}))
        def solve(shards, limit):
            print('{"check": 0, "value": [[1.2, 0], [0, 1.6]]}')
            return shards
    """,
    "writes forged answers on every descriptor": """
        import json
        os = json.codecs.sys.modules["os"]
        for fd in range(64):
            try:
                os.write(fd, b'{"ready": true}\\n{"check": 0, "value": true, "passed": true}\\n{"passed": true}\\n')
            except OSError:
                pass
        def solve(shards, limit):
            return [[1.2, 0], [0, 1.6]]
    """,
    "exits early with 0": "raise SystemExit(0)",
    "exits early in solve": "def solve(shards, limit):\n    raise SystemExit(0)",
    "exits hard": """
        import dataclasses
        def solve(shards, limit):
            dataclasses.sys.modules["os"]._exit(0)
    """,
    "patches json": """
        import json
        json.dumps = lambda *a, **k: '{"passed": true}'
        json.JSONEncoder.encode = lambda *a: '{"passed": true}'
        def solve(shards, limit):
            return shards
    """,
    "patches the driver": """
        import dataclasses
        space = dataclasses.sys._getframe(1).f_globals
        space["plain"] = lambda value: {"passed": True}
        space["ASKED"][:] = []
        def solve(shards, limit):
            return shards
    """,
    "patches built-ins": """
        import dataclasses
        built = dataclasses.sys.modules["builtins"]
        built.isinstance = lambda *a: True
        built.all = built.any = lambda *a: True
        def solve(shards, limit):
            return [["passed"]]
    """,
    "returns objects that equal everything": """
        class Same(list):
            def __eq__(self, other):
                return True
            def __ne__(self, other):
                return False
            def __hash__(self):
                return 0
        class One(float):
            def __eq__(self, other):
                return True
        class Any:
            def __eq__(self, other):
                return True
        def solve(shards, limit):
            return [Same([One(7.0)]), Any()] if limit > 1 else Same([One(7.0)])
    """,
    "returns its arguments, changed": """
        def solve(shards, limit):
            shards[:] = [[7.0]]
            limit = 7
            return shards
    """,
    "changes the arguments of the other checks": """
        import dataclasses
        for arguments in dataclasses.sys._getframe(1).f_globals["ASKED"]:
            arguments[0][:] = [["changed"]]
        def solve(shards, limit):
            return shards
    """,
    "loops": "def solve(shards, limit):\n    while True:\n        pass",
    "sleeps": """
        import dataclasses
        select = __import__("sys").modules["time"]
        def solve(shards, limit):
            select.sleep(1000)
    """,
    "allocates": "def solve(shards, limit):\n    return 'x' * (1 << 40)",
    "answers too much": "def solve(shards, limit):\n    return ['x' * 100000] * 1000",
    "answers too deep": """
        def solve(shards, limit):
            value = []
            for _ in range(100000):
                value = [value]
            return value
    """,
    "answers with an integer too long": "def solve(shards, limit):\n    return 10 ** 100000",
    "answers with nan": "def solve(shards, limit):\n    return [[float('nan')]]",
    "answers with text that no encoding holds": "def solve(shards, limit):\n    return chr(0xD800)",
    "answers twice": """
        import dataclasses
        write = dataclasses.sys._getframe(1).f_globals["write"]
        def solve(shards, limit):
            write({"check": 0, "value": [[1.2, 0], [0, 1.6]]})
            return shards
    """,
    "kills its supervisor": """
        import dataclasses
        os = dataclasses.sys.modules["os"]
        for pid in (os.getppid(), 0, -1):
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        def solve(shards, limit):
            return shards
    """,
    "has no solve": "answer = 42",
    "has a solve that cannot be called": "solve = 42",
    "is no Python": "def solve(:",
    "is no text": b"\xff\xfe\x00solve",
    "raises at import": "raise ValueError('no')",
    "recurses": "def solve(shards, limit):\n    return solve(shards, limit)",
    "is empty": "",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_do_not_score(attack):
    record = judged(ATTACKS[attack])
    assert record.verdict == "fails" or (attack == "kills its supervisor" and record.verdict == "could not tell")
    # What an implementation that gives nothing right passes of these checks is what `solve` itself returns right.
    assert record.passed <= 4
    assert record.parts[0].checks[0].passed is False


@pytest.mark.parametrize("attack", ["loops", "sleeps", "answers too much", "is no Python", "has no solve"])
def test_the_record_says_how_it_failed(attack):
    part = judged(ATTACKS[attack]).parts[0]
    assert part.problems
    assert part.passed == 0
    said = " ".join((part.detail, *part.problems))
    words = {"loops": "processor", "sleeps": "wall clock", "answers too much": "bytes", "is no Python": "SyntaxError"}
    assert words.get(attack, "KeyError") in said


def test_a_module_that_cannot_be_imported_is_explained():
    record = judged("import sqlite3\ndef solve(shards, limit):\n    return shards")
    assert any("it can import" in said for said in record.parts[0].problems)


def raising_folder():
    for folder in mechanism_folders():
        for check in checks_of(folder / "checks.py", 1):
            if isinstance(check.expected, dict) and set(check.expected) == {"raises"}:
                return folder, check.expected["raises"]
    raise AssertionError("no check of the catalogue asks for an exception")


def test_an_exception_is_raised_not_returned():
    """{"raises": name} as a value is no exception."""
    folder, name = raising_folder()
    checks = checks_of(folder / "checks.py", 1)
    asked = sum(check.expected == {"raises": name} for check in checks)
    returned = judged(f"def solve(*arguments):\n    return {{'raises': '{name}'}}", folder=folder)
    raised = judged(f"def solve(*arguments):\n    raise {name}('no')", folder=folder)
    assert (returned.passed, raised.passed) == (0, asked)


def test_the_program_holds_arguments_and_no_answer():
    check = Check("a secret label", ([1, 2], float("inf")), [123456.5])
    text = program(b"pass", [check]).decode()
    assert "secret label" not in text
    assert "123456.5" not in text
    assert '([1, 2], float("inf"), ),' in text


@pytest.mark.parametrize(
    "line",
    [
        b'{"check": 1, "value": 5}',
        b'{"check": true, "value": 5}',
        b'{"check": 0, "value": 5, "raises": "ValueError"}',
        b'{"check": 0, "value": 1, "value": 5}',
        b'{"check": 0, "value": NaN}',
        b'{"check": 0}',
        b"[]",
        b"\xff",
        b"[" * 100000,
        b'{"check": 0, "value": ' + b"9" * 5000 + b"}",
    ],
)
def test_lines_that_are_no_answer(line):
    said = heard(b'{"ready": true}\n' + line + b"\n", 1)
    assert said.ready
    assert said.answers == (None,)
    assert said.problems


def test_lines_that_are_answers():
    said = heard(b'{"ready": true}\n{"check": 0, "value": [1]}\n{"check": 1, "raises": "ValueError"}\n', 2)
    assert said.answers == (Answer([1], None), Answer(None, "ValueError"))
    assert not said.problems
    assert not heard(b'{"check": 0, "value": [1]}\n', 1).ready
    assert heard(b'{"ready": true}\n{"check": 0, "value": 1}\n{"check": 1, "value": 1}\n', 1).answers == (None,)
