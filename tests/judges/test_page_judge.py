"""The page verifier must reject each of these: a tampered record, a lying program, a program that never tells."""

from __future__ import annotations

import hashlib

import pytest
from tests.failures.pages import LOCAL, NOTHING, SEEDS, needs_seed, observed, page, rows_of, section, source

from shardproof.failures import verify_page
from shardproof.isolation import Limits

pytestmark = pytest.mark.processes
SHORT = Limits(wall_s=60.0, cpu_s=5, processes=12, output_bytes=300_000)


@pytest.fixture
def verify(tmp_path):
    def run(text: str, **options):
        path = tmp_path / "page.txt"
        path.write_text(text)
        return verify_page(path, **{"limits": SHORT, **options})

    return run


def rows(program: str) -> list[str]:
    return rows_of(observed(program)[0])


TAMPERED = {
    "an actual value": ("`[[2.0], [2.0, 0.0]]`", "`[[2.0], [2.5, 0.0]]`", "row 2 'uneven shard widths': actual"),
    "an actual value's kind": ("`[[0.0]]`\t`[[0]]`", "`[[0]]`\t`[[0]]`", "recorded [[0]], observed [[0.0]]"),
    "an expected value": ("`[[1.8, 2.4]]`\tPassed", "`[[1.8, 2.5]]`\tPassed", "expected: recorded [[1.8, 2.5]]"),
    "an expected value's kind": ("`[[0.0]]`\t`[[0]]`", "`[[0.0]]`\t`[[0.0]]`", "expected: recorded [[0.0]]"),
    "an outcome": ("`[[1.6, 0]]`\tFailed", "", ""),
    "a label": ("\nzero norm\t", "\nzero horm\t", "label: recorded zero horm, observed zero norm"),
    "a cell that is no JSON": ("`[[2.0], [2.0, 0.0]]`", "`[[2.0], [2.0, 0.0]`", "actual: recorded"),
    "a cell's backtick": ("`[[2.0], [2.0, 0.0]]`", "'[[2.0], [2.0, 0.0]]`", "not between backticks"),
    "a tab between cells": ("widths\t`", "widths `", "malformed"),
    "an exit code": ("Exit 1\n", "Exit 0\n", "exit: recorded 'Exit 0', observed Exit 1"),
    "an exit text": ("Exit 1\n", "Exit one\n", "exit: recorded 'Exit one', observed Exit 1"),
}
TAMPERED["an outcome"] = ("`[[1.2], [1.6, 0]]`\tFailed", "`[[1.2], [1.6, 0]]`\tPassed", "outcome: recorded Passed")


@needs_seed
@pytest.mark.parametrize("what", TAMPERED)
def test_a_tampered_record_of_the_published_page_is_not_reproduced(what, verify):
    """One change in the published page: exactly that is named, everything else still agrees."""
    before, after, named = TAMPERED[what]
    text = next(SEEDS.glob("*.txt")).read_text()
    assert before in text
    verdict = verify(text.replace(before, after, 1))
    assert verdict.verdict == "violated"
    differences = [line for one in verdict.implementations for line in one.differences]
    assert len(differences) == 1
    assert named in differences[0]
    assert verdict.agreeing == (14 if "exit" in what else 13)
    assert verdict.observations == 14


@needs_seed
@pytest.mark.parametrize("number", [0, 1])
def test_a_tampered_digest_or_source_of_the_published_page_is_a_mismatch(number, verify):
    """A changed digest, and a source changed where no outcome changes, are found by the digest alone."""
    text = next(SEEDS.glob("*.txt")).read_text()
    recorded = ["0976d76ff7cefd6d7129e98d", "ab79be2f71aab62cf1b615b1"][number]
    for changed in (
        text.replace(recorded, recorded[:-1] + "0"),
        text.replace(recorded, recorded[:-1] + "g"),
        text.replace("Python standard library only.", "Python standard library only!", 1)
        if number == 0
        else "Python standard library only!".join(text.rsplit("Python standard library only.", 1)),
    ):
        verdict = verify(changed)
        assert verdict.verdict == "mismatch"
        assert [one.digest.agrees for one in verdict.implementations] == [number == 1, number == 0]
        assert (verdict.agreeing, verdict.observations) == (14, 14)


def test_missing_extra_repeated_and_reordered_rows_are_named(verify):
    """The table must be what the program prints: all of it, once, in its order."""
    four = rows(source())
    for table, named, agreeing in (
        (four[:3], "row 4 'no shards': observed, not recorded in the table", 7),
        ([*four, "more\t`1`\t`1`\tPassed"], "row 5 'more': recorded in the table, not observed", 8),
        ([*four, four[0]], "the table has 'two shards' 2 times", 8),
        ([four[1], four[0], *four[2:]], "the table has the program's checks in another order", 8),
        ([], "the table has 0 checks, the page says 4", 4),
    ):
        verdict = verify(page(rows=(table, None)))
        assert verdict.verdict == "violated"
        assert any(named in line for line in verdict.implementations[0].differences), verdict
        assert verdict.agreeing == agreeing


def test_the_number_of_checks_that_the_page_claims_is_held_against_both(verify):
    """Table and program agree on four; the page says five."""
    verdict = verify(page(checks=5))
    assert verdict.verdict == "violated"
    assert verdict.implementations[0].differences == (
        "the table has 4 checks, the page says 5 per implementation",
        "the program has 4 checks, the page says 5 per implementation",
    )


def test_forged_flags_are_derived_again(verify):
    """A program that says passed of unequal values, or exits 0 with failures, is contradicted by its values."""
    lying = source().replace('"passed": actual == expected', '"passed": True')
    verdict = verify(page(lying))
    first = verdict.implementations[0]
    assert verdict.verdict == "violated"
    assert "its flag says Passed, its actual and expected are unequal" in first.differences[-1]
    assert any("it says passed=true of all" in line for line in first.differences)
    assert any("exits 0 although not all its checks pass" in line for line in first.differences)
    assert [row.agrees for row in first.observations] == [False, True, True, True]
    exits = source().replace("raise SystemExit(0 if all(x", "raise SystemExit(0 if any(x")
    verdict = verify(page(exits))
    assert verdict.verdict == "violated"
    assert verdict.implementations[0].differences == ("it exits 0 although not all its checks pass",)
    total = source().replace('"passed": all(x["passed"]', '"passed": any(x["passed"]')
    assert verify(page(total)).implementations[0].differences == (
        "it says passed=true of all, its values say otherwise",
    )


PRINTS = {
    "nothing": "pass",
    "no JSON": "print('{')",
    "a list": "print('[]')",
    "its document twice": "print(json.dumps(document)); print(json.dumps(document))",
    "more after its exit": "import atexit; atexit.register(print, '{}'); print(json.dumps(document))",
    "NaN for the document": "print('NaN')",
    "a huge integer": "print('1' * 200_000)",
    "a deep nesting": "print('[' * 100_000 + ']' * 100_000)",
    "deep values": "print('{\"observations\": ' + '[' * 50_000 + ']' * 50_000 + ', \"passed\": true}')",
    "other keys": "document['more'] = 1; print(json.dumps(document))",
    "a key twice": "print('{\"passed\": true, ' + json.dumps(document)[1:])",
    "a flag that is no boolean": "document['passed'] = 0; print(json.dumps(document))",
    "an entry that is none": "document['observations'][1] = None; print(json.dumps(document))",
    "an entry without a flag": "del document['observations'][1]['passed']; print(json.dumps(document))",
    "bytes that are not UTF-8": "import os; os.write(1, b'\\xff')",
    "its document in UTF-16": "import os; os.write(1, json.dumps(document).encode('utf-16'))",
    "on a closed stream": "import sys; sys.stdout.close(); sys.stdout = None",
}


def forged(act: str) -> str:
    """A program with a right document at hand that prints something else."""
    entries, _ = observed(source())
    document = {"observations": entries, "passed": False}
    return f"import json\ndocument = json.loads({str(document).replace(chr(39), chr(34)).lower()!r})\n{act}\nexit(1)\n"


@pytest.mark.parametrize("what", PRINTS)
def test_whatever_else_a_program_prints_is_no_observation(what, verify):
    """Nothing but exactly one document of the known form counts; each row says what was wrong."""
    verdict = verify(page(forged(PRINTS[what]), rows=(rows(source()), None), codes=(1, None), contract="x"))
    first = verdict.implementations[0]
    assert verdict.verdict == "violated"
    assert [row.agrees for row in first.observations] == [False] * 4
    assert all("not observed: Expected" in line for line in first.differences)
    assert verdict.agreeing == 4


def test_the_right_document_printed_once_counts(verify):
    """The control of the test above."""
    text = page(forged("print(json.dumps(document))"), rows=(rows(source()), None), codes=(1, None), contract="x")
    assert (verify(text).verdict, verify(text).agreeing) == ("held", 8)


ENDS = {
    "loops": ("while True: pass\n", "could not tell", "processor time"),
    "sleeps": ("import time; time.sleep(1000)\n", "could not tell", "of wall clock"),
    "floods": ("while True: print('x' * 1000)\n", "could not tell", "bytes on one output stream"),
    "takes memory": ("x = b'x' * 10**10\n", "could not tell", "out of memory"),
    "kills itself": ("import os; os.kill(os.getpid(), 9)\n", "violated", "it was killed by SIGKILL"),
    "exits early": ("raise SystemExit(1)\n", "violated", "got nothing"),
    "reads its input": ("input()\n", "violated", "got nothing"),
}


@pytest.mark.parametrize("what", ENDS)
def test_a_program_that_ends_otherwise_is_never_held(what, verify):
    """What was stopped could not be told; what ended by itself otherwise than recorded is violated."""
    start, word, named = ENDS[what]
    limits = Limits(wall_s=1.5 if what == "sleeps" else 30, cpu_s=1, processes=12, output_bytes=300_000)
    text = page(start + source(), rows=(rows(source()), None), codes=(1, None))
    verdict = verify(text, limits=limits)
    first = verdict.implementations[0]
    assert verdict.verdict == word
    assert any(named in line for line in first.unclear + first.differences), first
    assert [row.agrees for row in first.observations] == [None if word == "could not tell" else False] * 4
    assert verdict.agreeing == 4


def test_what_was_seen_to_differ_outweighs_what_was_not_seen(verify):
    """One source sleeps, the other's table is wrong: violated; a wrong digest on top: mismatch."""
    sleeping = "import time; time.sleep(1000)\n" + source()
    wrong = rows(source(NOTHING))
    wrong[0] = wrong[0].replace("Failed", "Passed")
    text = page(sleeping, rows=(rows(source()), wrong), codes=(1, None))
    limits = Limits(wall_s=1.0, cpu_s=1)
    assert verify(text, limits=limits).verdict == "violated"
    assert verify(text.replace("SHA-256 / ", "SHA-256 / 0", 1), limits=limits).verdict == "mismatch"


def test_a_program_that_leaves_a_process_is_not_what_the_page_records(verify):
    """All its rows agree and its exit code too; that it left something running is a difference."""
    leaving = source().replace(
        "raise SystemExit",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\nraise SystemExit",
    )
    # Rows and exit code as of the same program without the child, so that nothing of the tests is left running.
    verdict = verify(page(leaving, rows=(rows(source()), None), codes=(1, None), contract="x"))
    assert verdict.verdict == "violated"
    assert verdict.agreeing == 8
    assert "left 1 running" in verdict.implementations[0].differences[0]


def test_two_wrong_sources_with_right_digests_are_not_held(verify):
    """A page forged whole, digests included, is still held against what its sources do."""
    text = page()
    honest = section(1, "The failure", source(), None, None)
    forged_section = section(1, "The failure", source(LOCAL.replace("0.5", "0.25")), rows(source()), 1)
    assert honest in text
    verdict = verify(text.replace(honest, forged_section))
    assert all(one.digest.agrees for one in verdict.implementations)
    assert verdict.implementations[0].digest.recorded in forged_section
    assert verdict.implementations[0].digest.computed != hashlib.sha256(source().encode()).hexdigest()
    assert verdict.verdict == "violated"
