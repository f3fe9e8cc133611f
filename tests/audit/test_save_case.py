"""A shrunk failure as a mechanism: its program shows the failure, its checks reject it, and no table is a program."""

import pytest
from tests.audit.failing_cell import stored_cell

from shardproof.audit import store
from shardproof.audit.reproduction_cell import observation_of
from shardproof.audit.save_case import FIXTURE, save_case
from shardproof.audit.shrink import shrink
from shardproof.clip import clip_shards
from shardproof.errors import InvalidValueError
from shardproof.failures.mechanism import checks_of, function_of
from shardproof.records.audit import Candidate, Diagnosis, Named
from shardproof.records.shrunk import Shrunk

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]
SHARDS = "a shard is all that a rank holds"


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory):
    """torch's clip on plain shards, shrunk."""
    folder = tmp_path_factory.mktemp("run") / "run"
    cell = stored_cell(folder, "torch", "hand-sharded")
    plan, digest = store.read_plan(folder)
    return shrink(plan, digest, cell, observation_of(folder, plan, digest, cell.id), seconds=60)


def diagnosis(shrunk, mechanism, implementation, reading):
    named = Named(mechanism=mechanism, implementation=implementation, reading=reading)
    candidate = Candidate(together=((named,),), agreeing=2, departing=2)
    return Diagnosis(
        subject=shrunk.subject.name, scope="core", word="explained", observations=2, wrong=2, candidates=(candidate,)
    )


def test_the_case_has_the_program_that_explains_it_and_checks_that_reject_it(shrunk, tmp_path):
    saved = save_case(shrunk, [diagnosis(shrunk, "local-shard-clip", "failing", SHARDS)], tmp_path / "norms" / "mine")

    assert saved.implementation.mechanism == "local-shard-clip"
    assert saved.left
    assert all("not filled in" in line for line in saved.left), saved.left
    solve = function_of(tmp_path / "norms" / "mine" / "failing.py", "solve")
    for n in (1, 2, 17):
        checks = checks_of(tmp_path / "norms" / "mine" / "checks.py", n)
        assert len(checks) >= 5
        assert all(clip_shards(*check.arguments) == check.expected for check in checks)
        assert solve(*checks[0].arguments) != checks[0].expected
    with pytest.raises(InvalidValueError, match="new folder"):
        save_case(shrunk, [], tmp_path / "norms" / "mine")


@pytest.mark.parametrize("told", ["nothing", "another mistake"])
def test_without_a_program_that_shows_it_only_the_numbers_are_written(shrunk, tmp_path, told):
    other = diagnosis(shrunk, "norms-combined-linearly", "failing", "norms along all axes; the collective adds")
    saved = save_case(shrunk, [other] if told == "another mistake" else [], tmp_path / "norms" / "mine")

    assert saved.implementation is None
    assert [path.name for path in (tmp_path / "norms" / "mine").iterdir()] == [FIXTURE]
    assert Shrunk.model_validate_json((tmp_path / "norms" / "mine" / FIXTURE).read_bytes()) == shrunk
