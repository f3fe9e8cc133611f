"""The role rules must catch each of these: every rule broken on purpose in a copy, in the process and isolated."""

from __future__ import annotations

import decimal

import pytest
from tests.failures.catalogues import FAMILY, SLUG, copy_catalogue, edit

from shardproof.errors import InvalidValueError
from shardproof.failures.lint import lint_mechanism
from shardproof.failures.mechanism import Check, load_mechanism, member_of
from shardproof.failures.plan import load, plan_case
from shardproof.failures.roles import Row, broken_held_back, broken_roles, try_variant
from shardproof.failures.verification import Effort, verify_cases

RIGHT = '''"""Right."""

import math


def solve(shards, limit):
    norm = math.hypot(*(value for shard in shards for value in shard))
    return [[round(value * limit / norm if norm > limit else value, 12) for value in shard] for shard in shards]
'''
NONE = '"""Nothing."""\n\n\ndef solve(shards, limit):\n    return None\n'
FIRST = '"""Nothing."""\n\n\ndef solve(shards, limit):\n    return shards\n'
RAISES = '"""Raises."""\n\n\ndef solve(shards, limit):\n    raise ValueError(limit)\n'
ONE_OFF = RIGHT.replace("limit / norm if", "limit / norm + 1e-11 if")
CHECKS = '"""One check."""\n\n\ndef checks(n):\n    return [("only", ([[n]], n), {expected})]\n'

BROKEN = {
    "a repair that fails a check": ({"repair": ONE_OFF}, "repair fails 'norm spans two shards'"),
    "a repair that does nothing": ({"repair": FIRST}, "repair fails 'norm spans two shards'"),
    "a repair that raises": ({"repair": RAISES}, "repair fails 'norm spans two shards': it gives {'raises'"),
    "a failing one that is right": ({"failing": RIGHT}, "failing passes all 7 checks"),
    "an unsuccessful one that is right": ({"unsuccessful": RIGHT}, "unsuccessful passes all 7 checks"),
    "two wrong ones that give the same": (
        {"failing": FIRST, "unsuccessful": FIRST + "    # the same"},
        "failing and unsuccessful give the same result on every check",
    ),
    "checks that None passes": (
        {"checks": CHECKS.format(expected="None"), "repair": NONE},
        "one that returns None passes all checks",
    ),
    "checks that the first argument passes": (
        {"checks": CHECKS.format(expected="[[n]]"), "repair": RIGHT},
        "one that returns its first argument passes all checks",
    ),
    "checks that raising passes": (
        {"checks": CHECKS.format(expected='{"raises": "ValueError"}'), "repair": RAISES},
        "one that always raises ValueError passes all checks",
    ),
}


@pytest.fixture
def broken(tmp_path):
    catalogue, members = copy_catalogue(tmp_path)

    def make(files: dict[str, str]):
        for name, text in files.items():
            folder = members / SLUG if name in ("repair", "held_back") else catalogue / FAMILY / SLUG
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.py").write_text(text)
        return load_mechanism(catalogue / FAMILY / SLUG), members

    return make


def isolated(mechanism, members) -> tuple[str, list[str]]:
    found = []
    plan = plan_case(load(mechanism, members), "SP-00001", 1)
    verify_cases([plan], Effort(jobs=1), sink=found.append)
    result = found[0]
    return result.verdict, [*result.broken, *(text for one in result.programs for text in one.problems)]


@pytest.mark.processes
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_role_rule_is_caught_in_the_process_and_isolated(what, broken):
    """The rule that was broken is named both ways, and the case's verdict is `violated`."""
    files, named = BROKEN[what]
    mechanism, members = broken(files)
    quick = try_variant(mechanism, 1, member_of(SLUG, members))
    assert any(named in sentence for sentence in quick), quick
    verdict, said = isolated(mechanism, members)
    assert verdict == "violated"
    assert any(named in sentence for sentence in said), said


@pytest.mark.processes
def test_the_copy_itself_holds(broken):
    """Nothing of the above is the copy's own fault; with no repair there the rest still holds."""
    mechanism, members = broken({"repair": RIGHT})
    assert try_variant(mechanism, 1, member_of(SLUG, members)) == []
    assert isolated(mechanism, members) == ("held", [])
    assert isolated(mechanism, None) == ("held", [])


@pytest.mark.processes
@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("    __import__('os')._exit(0)\n", "Expected one JSON object"),
        ("    raise SystemExit(0)\n", "Expected one JSON object"),
        ("    print('[]')\n    return shards\n", "Expected one JSON object"),
        ("    globals()['same'] = lambda left, right: True\n    return shards\n", "got passed=True"),
        ("    observations.clear()\n    return shards\n", "observations and passed"),
        ("    __import__('os').kill(0, 9)\n", "ended otherwise than by exit"),
    ],
)
def test_an_implementation_that_forges_its_report_is_violated(code, named, broken):
    """What a wrong program prints about itself does not make it right; lint refuses such code before."""
    mechanism, members = broken({"failing": f'"""Forges."""\n\n\ndef solve(shards, limit):\n{code}', "repair": RIGHT})
    verdict, said = isolated(mechanism, members)
    assert verdict == "violated"
    assert any(named in sentence for sentence in said), said


@pytest.mark.processes
def test_an_implementation_that_never_ends_cannot_be_told(broken):
    """No observation is no verdict, and never `held`."""
    from shardproof.isolation import Limits

    mechanism, members = broken(
        {"failing": '"""Hangs."""\n\n\ndef solve(shards, limit):\n    while True:\n        pass\n', "repair": RIGHT}
    )
    found = []
    plan = plan_case(load(mechanism, members), "SP-00001", 1)
    verify_cases([plan], Effort(limits=Limits(cpu_s=1)), sink=found.append)
    assert found[0].verdict == "could not tell"
    assert found[0].programs[0].unclear


def test_held_back_checks_must_reject_the_wrong_ones():
    """A repair that fails one, and wrong programs that pass all, are named."""
    right, wrong = Row("a", 1, True), Row("a", 2, False)
    assert broken_held_back({"repair": [right], "failing": [wrong], "unsuccessful": [wrong]}) == []
    assert "repair fails the held-back check 'a'" in broken_held_back({"repair": [wrong]})[0]
    assert "failing passes all held-back checks" in broken_held_back({"failing": [right], "unsuccessful": [wrong]})[0]


def test_rules_on_rows_alone():
    """A single difference between the wrong ones is enough; True does not count as 1."""
    checks = [Check("a", (0,), 1), Check("b", (0,), 2)]
    failing, other = [Row("a", 1, True), Row("b", 1, False)], [Row("a", True, False), Row("b", 1, False)]
    assert broken_roles({"failing": failing, "unsuccessful": other}, checks) == []
    assert broken_roles({"failing": failing, "unsuccessful": failing}, checks) != []


STATIC = {
    "a slug that is not the folder": ("mechanism.toml", 'slug = "local-shard-clip"', 'slug = "other"', "folder's name"),
    "a family that is not the folder": ("mechanism.toml", '"norm-scope"', '"ordering"', "folder above"),
    "an unknown field": ("mechanism.toml", 'group = "own"', 'group = "own"\nextra = 1', "extra: Extra inputs"),
    "an unknown group": ("mechanism.toml", 'group = "own"', 'group = "mine"', "group: Input should be"),
    "an empty text": ("mechanism.toml", "Nothing crashes", "", ""),
    "two variants": ("mechanism.toml", "[1, 2, 3, 4, 5]", "[1, 2]", "variants:"),
    "a variant twice": ("mechanism.toml", "[1, 2, 3, 4, 5]", "[1, 2, 2]", "variants repeat"),
    "a link without https": ("mechanism.toml", "https://github.com/sgl", "http://github.com/sgl", "url"),
    "a contract that is not there": ("mechanism.toml", '"clip-shards"', '"clip-nothing"', "No such file"),
    "an import that does more": ("failing.py", "import math", "import os", "imports os"),
    "a foreign import": ("failing.py", "import math", "import numpy", "imports numpy"),
    "an import inside": ("failing.py", "    norm =", "    import math\n    norm =", "import inside a function"),
    "code at module level": (
        "failing.py",
        "import math",
        "import math\n\nfor i in []:\n    pass",
        "code at module level",
    ),
    "a print": ("failing.py", "    norm =", "    print(values)\n    norm =", "only computes"),
    "a reserved name": ("failing.py", "def clip(", "def same(", "same is a name of the rendered program"),
    "another signature": ("failing.py", "solve(shards, limit)", "solve(shards, most)", "the contract says"),
    "no solve": ("failing.py", "def solve(", "def answer(", "0 functions solve"),
    "no docstring": (
        "failing.py",
        '"""Every shard is clipped by the norm of its own values."""',
        "",
        "no module docstring",
    ),
    "no Python": ("failing.py", "import math", "import math(", "no Python"),
    "a check twice": ("checks.py", '"zero limit"', '"zero norm"', "'zero norm' 2 times"),
    "a label that is none": ("checks.py", '"zero limit"', '"Z"', "label 'Z'"),
    "an argument too few": ("checks.py", "([[n]], 0)", "([[n]],)", "1 arguments"),
    "a set as a value": ("checks.py", "[[0]])", "{0})", "plain value"),
    "a string for a float": ("checks.py", "[[0]])", '[["nan"]])', "pass the float"),
    "an integer too large": ("checks.py", "[[0]])", "[[2**53]])", "larger than JSON carries"),
    "variants that are the same": ("checks.py", "def checks(n):", "def checks(n):\n    n = 1", "have the same checks"),
    "a variant that is a flag": ("mechanism.toml", "[1, 2, 3, 4, 5]", "[true, 2, 3]", "variants.0"),
    "a variant beyond the last": ("mechanism.toml", "[1, 2, 3, 4, 5]", "[1, 2, 1001]", "variants beyond 1000"),
    "a title that turns the line": ("mechanism.toml", 'title = "Gradient', 'title = "\\u202eGradient', "U+202E"),
    "a star": ("failing.py", "import math", "import math\nfrom math import *", "imports * from math"),
    "a reserved alias": (
        "failing.py",
        "import math",
        "import math\nfrom math import hypot as check",
        "check is a name",
    ),
    "a reserved name that is read": ("failing.py", "return [clip", "return [] if N > 900 else [clip", "N is a name"),
    "more arguments": ("failing.py", "(shards, limit):", "(shards, limit, *, more=1):", "the contract says"),
    "a default that is a call": (
        "failing.py",
        "def clip(values, limit)",
        "def clip(values, limit=math.pi.real())",
        "a call",
    ),
    "a constant that is a call": (
        "failing.py",
        "def clip(",
        "SINK = [].append(1)\n\n\ndef clip(",
        "constant that is a call",
    ),
    "an address": ("failing.py", "return [clip", "id(shards)\n    return [clip", "id; an implementation only computes"),
    "a module through a module": (
        "failing.py",
        "import math",
        "import math\nimport statistics\n\nSYS = statistics.sys",
        "none of that module's functions",
    ),
    "a function that is put in": (
        "failing.py",
        "return [clip",
        "math.hypot = max\n    return [clip",
        "never changes an attribute",
    ),
    "a module from a module": ("failing.py", "import math", "import math\nfrom statistics import sys", "imports sys"),
    "a frame": ("failing.py", "return [clip", "(v for v in []).gi_frame\n    return [clip", "into the interpreter"),
    "a frame by text": ("failing.py", "return [clip", '"{0.real}".format(1)\n    return [clip', ".format"),
    "a class pattern": (
        "failing.py",
        "    return [clip",
        "    match shards:\n        case object(real=x):\n            pass\n    return [clip",
        "a class pattern",
    ),
    "checks with other imports": ("checks.py", "def checks(n)", "import os\n\n\ndef checks(n)", "imports os"),
    "checks by hash": ("checks.py", "([], n)", '([], hash("x"))', "hash; an"),
    "a late check twice": (
        "checks.py",
        '"zero limit"',
        '"zero norm" if n == 4 else "zero limit"',
        "checks(4) has 'zero",
    ),
    "late variants that are the same": ("checks.py", "def checks(n):", "def checks(n):\n    n = min(n, 4)", "4 and 5"),
    "checks that leave": ("checks.py", "def checks(n):", "def checks(n):\n    raise SystemExit(0)", "SystemExit"),
    "checks that raise": ("checks.py", "def checks(n):", "def checks(n):\n    n / 0", "ZeroDivisionError"),
    "checks that are no triples": ("checks.py", "([], n), [])", "([], n))", "Expected (label, arguments, expected)"),
}


@pytest.mark.parametrize("what", STATIC)
def test_a_static_mistake_is_named_by_lint(what, tmp_path):
    """One edit in a copy; lint, which runs no implementation, names it."""
    catalogue, members = copy_catalogue(tmp_path)
    folder = catalogue / FAMILY / SLUG
    assert lint_mechanism(folder, members) == []
    file, before, after, named = STATIC[what]
    if what == "an empty text":
        text = (folder / file).read_text()
        start = text.index('why_it_matters = """')
        end = text.index('"""', start + 22)
        (folder / file).write_text(text[:start] + 'why_it_matters = """' + text[end:])
        named = "why_it_matters: String should have at least"
    else:
        edit(folder / file, before, after)
    said = lint_mechanism(folder, members)
    assert any(named in sentence for sentence in said), said


PEEKING = {
    "by a module": ("import statistics", '    return statistics.sys._getframe(1).f_locals["expected"]'),
    "by a generator": (
        "import math",
        "    def walk():\n        yield made.gi_frame.f_back\n\n    made = walk()\n"
        '    return next(made).f_back.f_locals["expected"]',
    ),
    "by an exception": (
        "import math",
        "    try:\n        1 / 0\n    except ZeroDivisionError as error:\n"
        '        return error.__traceback__.tb_frame.f_back.f_locals["expected"]',
    ),
}


@pytest.mark.processes
@pytest.mark.parametrize("what", PEEKING)
def test_a_repair_that_reads_the_expected_values_off_its_caller_is_violated(what, broken):
    """It passes every check of its program, and is refused for how it is written."""
    imports, body = PEEKING[what]
    peeks = f'"""Peeks."""\n\n{imports}\n\n\ndef solve(shards, limit):\n{body}\n'
    mechanism, members = broken({"repair": peeks})
    verdict, said = isolated(mechanism, members)
    assert verdict == "violated"
    assert all("repair does more than compute" in sentence for sentence in said), said


def test_checks_that_leave_the_process_are_an_error_and_no_verdict(broken, tmp_path):
    """SystemExit(0) in a file of checks must not end the judge with the exit code of `held`."""
    mechanism, members = broken({"repair": RIGHT})
    path = mechanism.folder / "checks.py"
    for text in ("raise SystemExit(0)\n", "def checks(n):\n    raise SystemExit(0)\n"):
        path.write_text(text)
        with pytest.raises(InvalidValueError, match="SystemExit"):
            plan_case(load(mechanism, members), "SP-00001", 1)


def test_a_program_that_keeps_something_between_checks_is_named(broken):
    """Asked again in another order it gives something else."""
    keeps = '"""Keeps."""\n\nSEEN = []\n\n\ndef solve(shards, limit):\n    SEEN.append(1)\n    return len(SEEN)\n'
    mechanism, members = broken({"failing": keeps, "repair": RIGHT})
    assert any("it keeps something" in one for one in try_variant(mechanism, 1, member_of(SLUG, members)))


def test_checks_that_differ_from_call_to_call_are_named(tmp_path):
    """What they compute with has a state of its own."""
    catalogue, members = copy_catalogue(tmp_path)
    folder = catalogue / FAMILY / SLUG
    counts = "    n = getcontext().prec\n    setcontext(Context(prec=n + 1))\n"
    edit(folder / "checks.py", "def checks(n):\n", f"def checks(n):\n{counts}")
    edit(folder / "checks.py", "from shard", "from decimal import Context, getcontext, setcontext\n\nfrom shard")
    with decimal.localcontext():
        assert any("differs from call to call" in sentence for sentence in lint_mechanism(folder, members))


def test_a_lowering_without_its_functions_is_named(tmp_path):
    """Both functions, in a file that is Python."""
    catalogue, members = copy_catalogue(tmp_path)
    path = catalogue / "contracts" / "clip-shards" / "lowering.py"
    for text, named in (("def readings(cell):\n    return {}\n", "no function predicted"), ("def", "no Python")):
        path.write_text(text)
        assert any(named in sentence for sentence in lint_mechanism(catalogue / FAMILY / SLUG, members))


def test_lint_sees_equal_trees_stray_files_and_a_visible_check_that_is_held_back(tmp_path):
    """Comments and docstrings do not make two programs; a repair does not lie beside the failure."""
    catalogue, members = copy_catalogue(tmp_path)
    folder = catalogue / FAMILY / SLUG
    failing = (folder / "failing.py").read_text()
    (folder / "unsuccessful.py").write_text(failing.replace("Every shard", "Each shard") + "# another comment\n")
    (folder / "repair.py").write_text(RIGHT)
    (members / SLUG).mkdir(exist_ok=True)
    (members / SLUG / "repair.py").write_text(RIGHT)
    (members / SLUG / "held_back.py").write_text((folder / "checks.py").read_text())
    said = "\n".join(lint_mechanism(folder, members))
    assert "failing and unsuccessful have the same syntax tree" in said
    assert "repair.py does not belong here" in said
    assert "'zero limit' is a visible check" in said
