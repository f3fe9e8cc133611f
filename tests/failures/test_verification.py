"""Verifying cases: what is kept, what is run again, repeats that differ, and going on after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.failures.catalogues import FAMILY, SLUG, copy_catalogue, edit

from shardproof.errors import InvalidValueError
from shardproof.failures import verification
from shardproof.failures.kept import RESULTS, SUMMARY, ResultsError, _appender, cached, kept_in, read_results, resume
from shardproof.failures.mechanism import load_mechanism
from shardproof.failures.plan import Plan, case_digest, load, plan_case
from shardproof.failures.verification import Effort, verify_cases
from shardproof.records.map import CaseResult

pytestmark = pytest.mark.processes


@pytest.fixture
def copied(tmp_path):
    catalogue, members = copy_catalogue(tmp_path)
    return catalogue / FAMILY / SLUG, members


def plan(copied, n: int = 1, *, held_back: bool = False) -> Plan:
    folder, members = copied
    return plan_case(load(load_mechanism(folder), None if held_back else members), f"{SLUG}/{n}", n)


def verified(plans, **effort) -> tuple[list[CaseResult], object]:
    found = []
    summary = verify_cases(plans, Effort(**{"level": "none", **effort}), sink=found.append)
    return found, summary


def test_a_case_that_holds_says_what_was_observed(copied):
    """Rows, exits, digests and counts; JSON of the record carries no float that JSON has not."""
    found, summary = verified([plan(copied), plan(copied, 2)], jobs=2)
    assert (summary.verdict, summary.cases, summary.held, summary.ran) == ("held", 2, 2, 2)
    one = next(result for result in found if result.variant == 1)
    assert [program.role for program in one.programs][:2] == ["failing", "unsuccessful"]
    assert [sum(row.passed for row in program.observations) for program in one.programs][:2] == [5, 4]
    assert [program.exit_code for program in one.programs][:2] == [1, 1]
    json.loads(one.model_dump_json(), parse_constant=lambda name: pytest.fail(name))
    assert CaseResult.model_validate_json(one.model_dump_json()) == one
    assert summary.isolation.achieved == "none"


def test_without_repairs_the_digest_is_the_same_and_the_repair_held_back(copied):
    """What is held back is no part of the case digest, and not missing either."""
    with_repair, without = plan(copied), plan(copied, held_back=True)
    assert with_repair.digest == without.digest == case_digest(without.content)
    found, summary = verified([without])
    assert (found[0].verdict, found[0].repair, summary.repair_held_back) == ("held", "held back", 1)


def test_the_case_digest_covers_texts_programs_and_checks(copied):
    """Each changed part changes the digest; a changed repair changes the key alone."""
    folder, members = copied
    first = plan(copied)
    edits = [
        (folder / "mechanism.toml", "Nothing crashes", "Nothing breaks"),
        (folder / "failing.py", "factor = limit / norm", "factor = limit  / norm"),
        (folder / "checks.py", "([], n)", "([], n + 1)"),
        (folder.parents[1] / "contracts" / "clip-shards" / "contract.toml", "zero norm uses", "a zero norm uses"),
    ]
    seen = {first.digest}
    for path, before, after in edits:
        edit(path, before, after)
        seen.add(plan(copied).digest)
        edit(path, after, before)
    assert len(seen) == 5
    assert plan(copied).digest == first.digest
    if (members / SLUG / "repair.py").exists():
        edit(members / SLUG / "repair.py", "norm <= limit", "limit >= norm")
        assert plan(copied).digest == first.digest
        assert plan(copied).key("none") != first.key("none")
    assert first.key("none") != first.key("process")


def test_an_unchanged_case_comes_from_the_cache_and_a_changed_one_does_not(copied, tmp_path):
    """By key; fresh runs it again; a torn or foreign file is a miss; more repeats than were run are too."""
    cache = tmp_path / "cache"
    first, summary = verified([plan(copied)], cache=cache)
    assert (summary.ran, summary.from_cache) == (1, 0)
    again, summary = verified([plan(copied)], cache=cache)
    assert (summary.ran, summary.from_cache, summary.verdict) == (0, 1, "held")
    assert again == first
    for effort, cases in (({"fresh": True}, plan(copied)), ({"repeat": 2}, plan(copied)), ({}, plan(copied, 2))):
        assert verified([cases], cache=cache, **effort)[1].ran == 1
    file = next(path for path in cache.rglob("*.json") if path.stem == first[0].key)
    file.write_text(file.read_text()[:-20])
    assert cached(cache, first[0].key) is None
    assert verified([plan(copied)], cache=cache)[1].ran == 1


def test_what_did_not_hold_is_not_remembered(copied, tmp_path):
    """A violated case is run every time."""
    folder, _ = copied
    for role in ("failing", "unsuccessful"):
        (folder / f"{role}.py").write_text(f'"""{role}."""\n\n\ndef solve(shards, limit):\n    return shards\n')
    for _ in range(2):
        found, summary = verified([plan(copied)], cache=tmp_path / "cache")
        assert (summary.ran, summary.from_cache, summary.violated, summary.verdict) == (1, 0, 1, "violated")
        assert "failing and unsuccessful have the same syntax tree" in found[0].broken
    assert list((tmp_path / "cache").rglob("*.json")) == []


def test_repeats_that_differ_are_violated(copied):
    """A program whose result depends on the process is no reference."""
    folder, _ = copied
    (folder / "failing.py").write_text('"""Chance."""\n\n\ndef solve(shards, limit):\n    return hash("a")\n')
    found, _ = verified([plan(copied, held_back=True)], repeat=3)
    assert found[0].verdict == "violated"
    assert "2 of 2 further runs differ from the first" in found[0].programs[0].problems


def test_plans_are_taken_as_room_is_free(copied):
    """Ten thousand cases need no more memory than a few: plans are made no further ahead than programs run."""
    one, made, ahead = plan(copied, held_back=True), 0, []

    def plans():
        nonlocal made
        for _ in range(8):
            made += 1
            yield one

    summary = verify_cases(plans(), Effort(level="none", jobs=1), sink=lambda result: ahead.append(made - len(ahead)))
    assert (summary.cases, len(ahead)) == (8, 8)
    assert max(ahead) <= 3


def test_a_lost_program_is_our_fault_and_no_verdict(copied, monkeypatch):
    """A runner that swallows one program out of many does not shorten the count."""
    real = verification.run_all

    def losing(programs, **options):
        return (ended for number, ended in enumerate(real(programs, **options)) if number != 1)

    monkeypatch.setattr(verification, "run_all", losing)
    with pytest.raises(RuntimeError, match="1 cases: local-shard-clip/1"):
        verified([plan(copied), plan(copied, 2)])


def test_nothing_chosen_is_no_verdict():
    """An empty selection is not `held`."""
    assert verified([])[1].verdict == "nothing ran"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from shardproof.cli.main import run; run()", "map", "verify", *map(str, arguments)]


def test_a_killed_run_goes_on_where_it_stopped(copied, tmp_path):
    """SIGKILL midway, half a line at the end: every case is there once, nothing is run twice."""
    folder, members = copied
    out = tmp_path / "out"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    asked = command(
        folder, "--variants", "1-24", "--level", "none", "--jobs", 1, "--out", out, "--members", members, "--fresh"
    )
    process = subprocess.Popen(asked, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (
        (out / RESULTS).exists() and (out / RESULTS).read_bytes().count(b"\n") >= 3
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = (out / RESULTS).read_bytes()
    whole = before.count(b"\n")
    assert 3 <= whole < 24
    assert not (out / SUMMARY).exists()
    with (out / RESULTS).open("ab") as file:
        file.write(before.splitlines()[0][:100])
    done = subprocess.run(asked, env=environment, capture_output=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    results = list(read_results(out / RESULTS))
    assert sorted(result.variant for result in results) == list(range(1, 25))
    assert (out / RESULTS).read_bytes().count(b"\n") == 24
    assert (out / RESULTS).read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    summary = json.loads((out / SUMMARY).read_text())
    assert (summary["resumed"], summary["ran"], summary["cases"]) == (whole, 24 - whole, 24)


def test_a_finished_folder_starts_anew_and_a_foreign_one_is_refused(copied, tmp_path):
    """What did not hold is dropped and run again; a summary marks the end; a line of another schema is an error."""
    out = tmp_path / "out"
    out.mkdir()
    found, _ = verified([plan(copied)])
    (out / RESULTS).write_text(found[0].model_dump_json() + "\n")
    assert set(resume(out)) == {found[0].key}
    violated = found[0].model_copy(update={"verdict": "violated", "key": "0" * 64})
    with (out / RESULTS).open("a") as file:
        file.write(violated.model_dump_json() + "\n" + found[0].model_dump_json() + "\n")
    assert set(resume(out)) == {found[0].key}
    assert (out / RESULTS).read_text() == found[0].model_dump_json() + "\n"
    (out / SUMMARY).write_text("{}")
    assert resume(out) == {}
    assert not (out / RESULTS).exists()
    (out / RESULTS).write_text(found[0].model_dump_json().replace('"version":1', '"version":2') + "\n")
    with pytest.raises(ResultsError, match="line 1"):
        resume(out)


FORGED = {
    "the key alone": lambda document, key: document | {"key": key},
    "key and digest": lambda document, key: document | {"key": key, "case_digest": "0" * 64},
    "a wrong value with the flag of a right one": lambda document, key: _with_observation(document, actual=[[7]]),
    "an expected value of its own": lambda document, key: _with_observation(document, actual=[[7]], expected=[[7]]),
    "no observations": lambda document, key: (
        document | {"programs": [one | {"observations": []} for one in document["programs"]]}
    ),
    "a program less": lambda document, key: document | {"programs": document["programs"][:-1]},
}


def _with_observation(document, **values):
    *others, last = document["programs"]
    rows = [last["observations"][0] | values, *last["observations"][1:]]
    return document | {"programs": [*others, last | {"observations": rows}]}


@pytest.mark.parametrize("what", FORGED)
def test_an_edited_cache_does_not_make_a_verdict(what, copied, tmp_path):
    """A remembered result is judged again by its own values and by the plan; one that does not fit is run again."""
    cache, other = tmp_path / "cache", plan(copied, 2)
    (held,), _ = verified([plan(copied)], cache=cache)
    forges_another = what.startswith("key") or what.startswith("the key")
    key = other.key("none") if forges_another else held.key
    document = FORGED[what](json.loads(held.model_dump_json()), key)
    path = cache / key[:2] / f"{key}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))
    _, summary = verified([other if forges_another else plan(copied)], cache=cache)
    assert (summary.from_cache, summary.ran) == (0, 1)


def test_an_edited_folder_of_results_does_not_make_a_verdict(copied, tmp_path):
    """A line whose values do not hold is run again, whatever verdict it says."""
    (held,), _ = verified([plan(copied)])
    document = json.loads(held.model_dump_json())
    out = tmp_path / "out"
    out.mkdir()
    (out / RESULTS).write_text(json.dumps(document) + "\n")
    assert set(resume(out)) == {held.key}
    failing, *others = document["programs"]
    alike = document | {"programs": [failing, others[0] | {"observations": failing["observations"]}, *others[1:]]}
    for edited in (alike, _with_observation(document, actual=[[7]]), document | {"broken": ["one"]}):
        (out / RESULTS).write_text(json.dumps(edited) + "\n")
        assert resume(out) == {}


def test_two_runs_do_not_write_into_one_folder(copied, tmp_path):
    """The second is refused, since it would take the file away from under the first; after the first it goes on."""
    (held,), _ = verified([plan(copied)])
    with kept_in(tmp_path / "out") as (known, append):
        append(held)
        with pytest.raises(InvalidValueError, match="no other run"), kept_in(tmp_path / "out"):
            pytest.fail("two runs hold the folder")
    assert known == {}
    with kept_in(tmp_path / "out") as (known, _):
        assert set(known) == {held.key}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full, the file that is always full")
def test_a_full_disk_is_said_and_is_not_our_fault(copied, tmp_path):
    """What was written before stays."""
    (held,), _ = verified([plan(copied)])
    with pytest.raises(InvalidValueError, match="No space left"), Path("/dev/full").open("ab", buffering=0) as file:
        _appender(file, tmp_path)(held)
