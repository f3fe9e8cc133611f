"""The contract as tests of another project: strict expected failures, and nothing where it is not used."""

import textwrap

import pytest

from shardproof.errors import InvalidValueError
from shardproof.pytest import parametrize_with_contract

pytest.importorskip("torch", reason="ranks need torch")
pytest_plugins = ["pytester"]

OPTIONS = ("-p", "no:cacheprovider", "-p", "no:randomly", "--strict-markers", "-rA")


@pytest.fixture
def project(pytester):
    """Run a test file of a project of its own, with the plugin as an installed one would be."""

    def run(text):
        pytester.makepyfile(test_mine=textwrap.dedent(text))
        installed = any(each.name == "shardproof" for each in _plugins())
        plugin = () if installed else ("-p", "shardproof.pytest_plugin")
        return pytester.runpytest_subprocess(*plugin, *OPTIONS, timeout=100)

    return run


def _plugins():
    from importlib.metadata import entry_points

    return entry_points(group="pytest11")


def test_a_clip_is_judged_clause_by_clause_with_strict_expected_failures(project):
    result = project("""
        import torch
        from shardproof.pytest import parametrize_with_contract

        def local(params, max_norm):
            return torch.nn.utils.clip_grad_norm_(params, max_norm)

        @parametrize_with_contract(local, layouts=["one-rank"])
        def test_right(check):
            check()

        @parametrize_with_contract(
            local,
            layouts=["one-rank", "hand-sharded"],
            expected_failures={
                "hand*/norm.global": "every rank has its own norm",
                "one-rank/norm.same-on-ranks": "never seen to fail",
                "norm.plain-number": "holds, so that this is no expected failure",
            },
        )
        def test_wrong(check):
            check()
    """)

    result.stdout.fnmatch_lines(["PASSED*test_right?one-rank-norm.global?", "XFAIL*hand-sharded-norm.global?*"])
    result.stdout.fnmatch_lines_random(
        [
            "FAILED*test_wrong?hand-sharded-scale.one-factor?*",
            "E *ContractViolationError: hand-sharded: scale.one-factor: over: *",
            "FAILED*test_wrong?one-rank-norm.plain-number?*XPASS*",
            "FAILED*test_wrong?hand-sharded-norm.plain-number?*XPASS*",
            "*It is no proof.*",
        ]
    )
    assert "SKIPPED" in result.stdout.str(), "one rank has no other rank to agree with"


def test_what_could_not_be_judged_is_no_expected_failure(project):
    result = project("""
        from shardproof.pytest import parametrize_with_contract
        from pathlib import Path

        def flaky(params, max_norm):
            mark = Path(__file__).with_name("called")
            if mark.exists():
                return 0.0
            mark.touch()
            raise OSError("once")

        @parametrize_with_contract(flaky, layouts=["one-rank"], expected_failures={"norm.global": "wrong now and then"})
        def test_flaky(check):
            check()
    """)

    result.stdout.fnmatch_lines_random(["FAILED*one-rank-norm.global?*", "E *CouldNotTellError: one-rank: flaky: *"])
    result.assert_outcomes(failed=8)


def test_the_plugin_says_nothing_where_it_is_not_used(project):
    result = project("""
        import sys

        def test_nothing():
            assert "shardproof.audit" not in sys.modules
            assert "torch" not in sys.modules
    """)
    result.assert_outcomes(passed=1)
    assert "no proof" not in result.stdout.str()


def test_a_package_that_is_missing_is_a_skip(monkeypatch):
    from shardproof.audit.subjects import built_in
    from shardproof.pytest import _check, _verdict

    monkeypatch.setattr(built_in.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="pip install"):
        _check(lambda layout: _verdict("fabric", layout, 1.0, 2.0), "one-rank", "norm.global")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layouts": ["nowhere"]}, "nowhere"),
        ({"profile": "lenient"}, "profile"),
        ({"expected_failures": {"norm.nothing": "why"}}, "norm.nothing"),
        ({"expected_failures": {"bits.norm": "strict only"}}, "bits.norm"),
        ({"layouts": ["ddp"], "expected_failures": {"fsdp2/norm.global": "not chosen"}}, "fsdp2/norm.global"),
        ({"expected_failures": {"norm.global": " "}}, "reason"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_tests_are_collected(options, message):
    with pytest.raises(InvalidValueError, match=message):
        parametrize_with_contract("torch", **options)


@pytest.mark.parametrize("subject", [lambda params, limit: 0.0, print])
def test_a_subject_that_ranks_cannot_import_is_refused(subject):
    if subject is not print:

        def subject(params, limit):
            return 0.0

    with pytest.raises(InvalidValueError, match="top level"):
        parametrize_with_contract(subject)
