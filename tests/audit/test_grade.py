"""The grader alone, on observations made by hand: what it must notice, and what it must not claim."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shardproof.audit.checks import core
from shardproof.audit.clauses import expected
from shardproof.audit.grade import grade
from shardproof.errors import InvalidValueError
from shardproof.records.audit import Returned


def graded(plan, *seen, **options):
    return grade(plan, "0" * 64, seen, **options)


def core_calls(observation):
    """The observation as far as its last core call, so that what is changed at its end is core's."""
    ranks = tuple(
        rank.model_copy(update={"calls": tuple(call for call in rank.calls if call.fixture in CORE)})
        for rank in observation.ranks
    )
    return observation.model_copy(update={"ranks": ranks})


CORE = ("over", "between", "under", "at", "zero-gradient")


def all_right(plan, right_cell):
    return [right_cell(plan, cell.id) for cell in plan.cells]


def changed(observation, rank, call, **update):
    """The observation with one call changed."""
    ranks = list(observation.ranks)
    calls = list(ranks[rank].calls)
    calls[call] = calls[call].model_copy(update=update)
    ranks[rank] = ranks[rank].model_copy(update={"calls": tuple(calls)})
    return observation.model_copy(update={"ranks": tuple(ranks)})


def with_value(observation, rank, call, entry, place, value):
    slices = list(observation.ranks[rank].calls[call].slices)
    after = list(slices[entry].after)
    after[place] = value
    slices[entry] = slices[entry].model_copy(update={"after": tuple(after)})
    return changed(observation, rank, call, slices=tuple(slices))


def test_a_perfect_run_is_held(plan, right_cell):
    verdict = graded(plan, *all_right(plan, right_cell))

    assert (verdict.word, verdict.exit_code, verdict.counts) == ("held", 0, {"pass": 2})
    core = [clause for cell in verdict.cells for clause in cell.clauses if clause.profile == "core"]
    assert all(clause.checks for clause in core if clause.clause != "copies.equal")
    assert graded(plan, *all_right(plan, right_cell), profile="strict").word == "held"


def test_nothing_observed_is_nothing_ran(plan):
    verdict = graded(plan)

    assert (verdict.word, verdict.exit_code, verdict.observed) == ("nothing ran", 5, 0)
    assert {cell.verdict for cell in verdict.cells} == {"not run"}


def test_a_cell_that_is_missing_is_could_not_tell_as_a_whole(plan, right_cell):
    verdict = graded(plan, *all_right(plan, right_cell)[:-1])

    assert (verdict.word, verdict.exit_code, verdict.counts) == ("could not tell", 3, {"pass": 1, "not run": 1})


def test_a_violation_outweighs_a_missing_cell(plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    verdict = graded(plan, control, changed(subject, 0, 0, returned=Returned(type="float", number=1.0)))

    assert (verdict.word, verdict.exit_code) == ("violated", 1)


def test_nothing_counts_where_the_control_did_not_pass(plan, right_cell):
    control, subject, *rest = all_right(plan, right_cell)
    hung = changed(control, 0, 0, outcome="did not return", returned=None, slices=())
    crashed = subject.model_copy(
        update={
            "ranks": (subject.ranks[0].model_copy(update={"exit_code": -11, "signal": "SIGSEGV"}), subject.ranks[1])
        }
    )

    for seen in (subject, crashed, changed(subject, 0, 0, returned=Returned(type="float", number=1.0))):
        verdict = graded(plan, hung, seen, *rest)
        assert verdict.cells[1].verdict == "could not tell"
        assert "control did not pass this layout (hang" in verdict.cells[1].reason
        assert verdict.exit_code == 3
    assert graded(plan, subject, *rest).cells[1].verdict == "could not tell", "no control at all"


def test_a_crash_counts_where_the_control_passed(plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    subject = core_calls(subject)
    dead = subject.ranks[1].model_copy(update={"exit_code": -11, "signal": "SIGSEGV"})
    cell = graded(plan, control, subject.model_copy(update={"ranks": (subject.ranks[0], dead)})).cells[1]

    assert (cell.verdict, cell.ranks) == ("crash", (1,))
    assert "SIGSEGV" in cell.reason


@pytest.mark.parametrize("status", ["unavailable", "harness failed"])
def test_what_could_not_run_is_neither_pass_nor_fail(plan, right_cell, status):
    control, subject, *rest = all_right(plan, right_cell)
    verdict = graded(plan, control, subject.model_copy(update={"status": status, "note": "why", "ranks": ()}), *rest)

    assert verdict.cells[1].verdict == {"unavailable": "skip", "harness failed": "could not tell"}[status]
    assert (verdict.cells[1].reason, verdict.exit_code) == ("why", 3)


def test_observations_of_other_elements_or_fewer_are_no_evidence(plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    piece = subject.ranks[0].pieces[0]
    moved = piece.model_copy(update={"indices": tuple(index + 1 for index in piece.indices)})
    others = (moved, *subject.ranks[0].pieces[1:])
    wrong = [
        subject.model_copy(
            update={"ranks": (subject.ranks[0].model_copy(update={"pieces": others}), subject.ranks[1])}
        ),
        subject.model_copy(update={"ranks": subject.ranks[:1]}),
        changed(subject, 0, 0, slices=subject.ranks[0].calls[0].slices[1:]),
        changed(subject, 0, 0, fixture="invented"),
        changed(subject, 0, 0, returned=None),
    ]
    for observation in wrong:
        assert graded(plan, control, observation).cells[1].verdict == "could not tell"


def test_calls_left_out_on_every_rank_do_not_pass(plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    fewer = tuple(rank.model_copy(update={"calls": rank.calls[:3]}) for rank in subject.ranks)

    assert graded(plan, control, subject.model_copy(update={"ranks": fewer})).cells[1].verdict == "could not tell"


@given(data=st.data())
@settings(deadline=None, max_examples=80)
def test_any_one_wrong_value_is_found_where_it_is(data, plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    rank = data.draw(st.integers(0, 1))
    call = data.draw(
        st.sampled_from([place for place, made in enumerate(subject.ranks[rank].calls) if made.fixture in CORE])
    )
    entry = data.draw(st.integers(0, 2))
    after = subject.ranks[rank].calls[call].slices[entry].after
    place = data.draw(st.integers(0, len(after) - 1))
    value = data.draw(st.floats(width=32))
    assume(not abs(value - after[place]) <= 1e-5 * abs(after[place]))

    cell = graded(plan, control, with_value(subject, rank, call, entry, place, value)).cells[1]

    assert cell.verdict == "fail"
    found = [each for each in cell.clauses if each.outcome == "violated" and each.profile == "core"]
    found = [each for each in found if each.clause != "copies.equal"]
    assert [each.violations for each in found] == [1]
    assert (found[0].first.rank, found[0].first.index) == (rank, subject.ranks[rank].pieces[entry].indices[place])
    assert str(found[0].first.observed) == str(value)


@given(relative=st.floats(-0.9, 0.9) | st.floats(-3e-6, 3e-6))
@settings(deadline=None, max_examples=60)
def test_a_wrong_norm_is_found_unless_it_is_within_the_stated_tolerance(relative, plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    want = expected(plan.layouts[0], plan.layouts[0].fixtures[0])
    number = want.norm * (1 + relative)
    seen = changed(subject, 0, 0, returned=Returned(type="float", number=number))

    clauses = {each.clause: each.outcome for each in graded(plan, control, seen).cells[1].clauses}

    right = abs(number - want.norm) <= want.norm * want.norm_tolerance
    assert clauses["norm.global"] == ("held" if right else "violated")


def with_strict(observation, fixture, rank, **update):
    """The observation with one rank's call of a strict fixture changed."""
    place = [call.fixture for call in observation.ranks[rank].calls].index(fixture)
    return changed(observation, rank, place, **update)


def outcomes(cell):
    return {each.clause: each.outcome for each in cell.clauses}


def test_a_strict_call_that_hangs_decides_nothing_in_core(plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    seen = with_strict(subject, "zero-limit", 1, outcome="did not return", returned=None, slices=())
    core, strict = (graded(plan, control, seen, profile=profile).cells[1] for profile in ("core", "strict"))

    assert (core.verdict, strict.verdict) == ("pass", "fail")
    assert outcomes(core)["zero.limit"] == outcomes(strict)["zero.limit"] == "violated"


def test_a_waived_clause_is_reported_and_decides_nothing(plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    seen = changed(subject, 1, 0, returned=Returned(type="float", number=1.0))
    waivers = {"norm.global": "known", "norm.same-on-ranks": "known"}
    verdict = graded(plan, control, seen, waivers=waivers)
    cell = verdict.cells[1]

    assert (cell.verdict, verdict.waivers) == ("pass", waivers)
    assert outcomes(cell)["norm.global"] == "waived"
    assert "waived: norm.global" in cell.reason
    assert graded(plan, control, seen, waivers={"norm.global": "only this"}).cells[1].verdict == "fail"
    with pytest.raises(InvalidValueError, match="globul"):
        graded(plan, control, seen, waivers={"norm.globul": "a slip"})


def test_a_waived_call_that_raised_leaves_the_other_clauses_to_decide(plan, right_cell):
    control, subject, *_ = all_right(plan, right_cell)
    raised = {"outcome": "raised", "error": "ValueError: no", "returned": None}
    seen = changed(changed(subject, 0, 1, **raised), 1, 1, **raised)

    assert graded(plan, control, seen).cells[1].verdict == "error"
    assert graded(plan, control, seen, waivers={"calls.return": "known"}).cells[1].verdict == "pass"


def test_a_cell_that_differs_on_repeat_is_flaky_and_never_passed(plan, right_cell):
    control, subject, *rest = all_right(plan, right_cell)
    wrong = changed(subject, 0, 0, returned=Returned(type="float", number=1.0))
    again = subject.model_copy(update={"repeat": 2})
    verdict = graded(plan, control, wrong, again, *rest)
    cell = verdict.cells[1]

    assert (cell.verdict, cell.runs, verdict.word, verdict.exit_code) == ("flaky", 2, "could not tell", 3)
    assert "run 1: fail" in cell.reason
    assert "run 2: pass" in cell.reason
    assert graded(plan, control, subject, again).cells[1].verdict == "pass"
    assert graded(plan, control, wrong, wrong.model_copy(update={"repeat": 2})).cells[1].verdict == "fail"


def test_tolerances_admit_torchs_epsilon_and_rounding_and_little_more(plan):
    for layout in plan.layouts:
        for fixture in core(layout):
            want = expected(layout, fixture)
            assert 1e-6 < want.norm_tolerance < 3e-6
            assert want.norm_tolerance < want.element_tolerance < 5e-6
