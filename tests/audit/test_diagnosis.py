"""Diagnosis, on observations made by hand: it finds the mistake that made them, and claims none that did not."""

import dataclasses
import functools

import pytest
from tests.audit.conftest import SUBJECTS

from shardproof.audit.apart import tell_apart
from shardproof.audit.diagnosis import Graded, diagnose, point_of
from shardproof.audit.grade import grade
from shardproof.audit.layouts import named
from shardproof.audit.lowering import cell_of
from shardproof.audit.run import plan_of
from shardproof.failures import lowered
from shardproof.failures.lowering import Ended
from shardproof.failures.lowering import answer as solved
from shardproof.records.audit import Call, CellObservation, Piece, RankObservation, Returned, Slice

LAYOUTS = ("one-rank", "ddp", "hand-sharded", "fsdp2", "hsdp", "pipeline", "pipeline-tied", "zero-flat")
DICTIONARY = list(lowered())


@functools.cache
def plan(layouts=LAYOUTS):
    return plan_of([f"{SUBJECTS / 'right.py'}:by_hand"], named(layouts), timeout_s=1.0)


def observed(answer, layouts=LAYOUTS):
    """A run in which the subject ended each call as `answer(layout, fixture)` says; the control was right."""
    seen = []
    for cell in plan(layouts).cells:
        layout = next(each for each in plan(layouts).layouts if each.name == cell.layout)
        told = {call.name: (right if cell.control else answer)(layout, call) for call in layout.fixtures}
        ranks = tuple(_rank(layout, rank, told) for rank in range(layout.world_size))
        seen.append(
            CellObservation(
                plan_sha256="0" * 64, cell=cell.id, status="ran", note=None, started="", seconds=0.0, ranks=ranks
            )
        )
    return seen


def _rank(layout, rank, told):
    held = [piece for piece in layout.pieces if piece.rank == rank]
    pieces = tuple(
        Piece(entry=p.entry, tensor=p.tensor, kind="Tensor", indices=p.indices, padding=p.padding) for p in held
    )
    calls = tuple(_call(layout, call, held, rank, told[call.name][rank]) for call in layout.fixtures)
    return RankObservation(rank=rank, stage="done", pieces=pieces, calls=calls)


def _call(layout, call, held, rank, ended):
    before = [tuple(call.gradients[piece.tensor][index] for index in piece.indices) for piece in held]
    after = ended.values or before
    slices = tuple(
        Slice(before=row, after=tuple(new[: len(row)]), kind="Tensor", same_object=True)
        for row, new in zip(before, after, strict=True)
    )
    if ended.outcome == "raised":
        return Call(fixture=call.name, outcome="raised", stage="", error="ValueError: no", slices=slices)
    norm = ended.norm if ended.norm is not None else right(layout, call)[rank].norm
    returned = Returned(type="float", number=norm)
    return Call(fixture=call.name, outcome="returned", stage="", returned=returned, slices=slices)


def right(layout, call):
    return point_of(layout, call).right


def of(slug, role, reading):
    """What the map's implementation does in that reading; right where the reading cannot express the call."""
    entry = next(each for each in DICTIONARY if (each.slug, each.role) == (slug, role))

    def answer(layout, call):
        cell = cell_of(layout, call)
        arguments = entry.readings(cell).get(reading)
        return right(layout, call) if arguments is None else entry.predicted(cell, solved(entry.solve, arguments))

    return answer


def diagnosed(answer, layouts=LAYOUTS, profile="core"):
    seen = observed(answer, layouts)
    verdict = grade(plan(layouts), "0" * 64, seen, profile=profile)
    return diagnose([Graded(plan(layouts), verdict, seen)], DICTIONARY)


KNOWN = [
    ("missing-model-axis", "failing", "group: the axis dp; tensors know nothing"),
    ("norms-combined-linearly", "failing", "norms along all axes; the collective adds"),
    ("norms-combined-linearly", "failing", "norms along all axes; the collective averages"),
    ("replica-counted-n-times", "failing", "group: all axes; tensors know nothing"),
    ("replica-counted-n-times", "unsuccessful", "group: all axes; tensors know nothing"),
    ("partial-norm-reported", "failing", "group: no axis; tensors know nothing"),
    ("local-shard-clip", "failing", "a shard is all that a rank holds"),
    ("local-shard-clip", "unsuccessful", "a shard is all that a rank holds"),
    ("coefficient-formula", "failing", "a norm of zero passed over"),
    ("tied-copy-double-count", "failing", "group: all axes; tensors know nothing"),
    ("clip-without-effect", "failing", "the tensors come as an iterator"),
    ("clip-without-effect", "failing", "only the first rank scales"),
]


@pytest.mark.parametrize(("slug", "role", "reading"), KNOWN)
def test_a_known_mistake_is_among_the_candidates(slug, role, reading):
    (diagnosis,) = diagnosed(of(slug, role, reading))

    names = {(name.mechanism, name.implementation) for each in diagnosis.candidates for name in each.together[0]}
    assert diagnosis.word == "explained"
    assert (slug, role) in names
    assert all(each.departing >= 2 for each in diagnosis.candidates)


def test_a_right_subject_has_no_diagnosis():
    assert diagnosed(right) == ()


@pytest.mark.parametrize("times", [0.99, 1.01, 3.0])
def test_a_mistake_that_the_map_does_not_know_is_given_no_name(times):
    def answer(layout, call):
        return [dataclasses.replace(each, norm=(each.norm or 0.0) * times + 0.125) for each in right(layout, call)]

    (diagnosis,) = diagnosed(answer)

    assert (diagnosis.word, diagnosis.candidates) == ("not a known mechanism", ())
    assert diagnosis.residuals
    assert all(0 <= each.agreeing < each.of for each in diagnosis.residuals)


def test_one_deviating_observation_rules_a_candidate_out():
    answer = of("norms-combined-linearly", "failing", "norms along all axes; the collective adds")

    def almost(layout, call):
        told = list(answer(layout, call))
        if (layout.name, call.name) == ("pipeline", "under"):
            told = [Ended(norm=each.norm * 1.001, values=each.values) for each in told]
        return told

    (diagnosis,) = diagnosed(almost)
    assert all(len(each.together[0]) > 1 for each in diagnosis.candidates)


def test_two_mistakes_at_once_are_named_together():
    norms = of("norms-combined-linearly", "failing", "norms along all axes; the collective adds")
    values = of("local-shard-clip", "failing", "a shard is all that a rank holds")

    def answer(layout, call):
        pairs = zip(norms(layout, call), values(layout, call), strict=True)
        return [Ended(norm=one.norm, values=other.values) for one, other in pairs]

    (diagnosis,) = diagnosed(answer)
    sets = [tuple(name.mechanism for name in each.together[0]) for each in diagnosis.candidates]

    assert diagnosis.word == "explained"
    assert ("norms-combined-linearly", "local-shard-clip") in sets


def test_candidates_that_a_short_run_cannot_tell_apart_come_with_a_layout_that_can():
    (diagnosis,) = diagnosed(of(*KNOWN[0]), layouts=("pipeline",))
    others = plan_of([], named(["ddp", "hand-sharded", "fsdp2"]), timeout_s=1.0).layouts
    told = tell_apart(diagnosis, DICTIONARY, others).apart

    assert len(diagnosis.candidates) > 1
    assert told
    assert {each.layout for each in told} <= {"ddp", "hand-sharded", "fsdp2"}


def test_a_strict_violation_is_diagnosed_by_its_clause():
    def zeroed(layout, call):
        if call.name != "inf-one-rank":
            return right(layout, call)
        rows = [[[0.0 * v for v in row] for row in each.values] for each in right(layout, call)]
        return [Ended(norm=float("inf"), values=tuple(map(tuple, each))) for each in rows]

    found = {each.scope: each for each in diagnosed(zeroed, profile="strict")}

    assert "core" in found
    names = {name.mechanism for each in found["non-finite.policy"].candidates for name in each.together[0]}
    assert names == {"nonfinite-norm-policy"}


def test_programs_that_take_a_refused_limit_are_compared_within_the_tolerance_of_their_dtype():
    def rounds(layout, call):
        limited = of("limit-domain", "failing", "in the units of the call")(layout, call)
        if call.name != "negative-limit" or layout.name != "mixed-dtypes":
            return limited
        # bfloat16 holds eight digits of the product.
        return [
            Ended(norm=each.norm, values=tuple(tuple(v * (1 + 2.0**-9) for v in row) for row in each.values))
            for each in limited
        ]

    found = {each.scope: each for each in diagnosed(rounds, layouts=("ddp", "mixed-dtypes"), profile="strict")}
    names = {name.mechanism for each in found["limit.domain"].candidates for name in each.together[0]}
    assert names == {"limit-domain"}


def test_padding_that_is_counted_is_named_as_such_and_not_by_programs_that_are_right_but_for_it():
    def padded(layout, call):
        return point_of(layout, call).right_with_padding

    (diagnosis,) = diagnosed(padded, layouts=("ddp", "zero-flat", "zero-flat-uneven", "zero-flat-replicas"))

    assert {name.mechanism for each in diagnosis.candidates for name in each.together[0]} == {"uneven-shard-average"}


@pytest.mark.parametrize(
    ("slug", "reading", "layouts"),
    [
        (
            "missing-model-axis",
            "group: every axis but ep; tensors know nothing; tied names once",
            ("ep-dp", "pipeline-v"),
        ),
        (
            "replica-counted-n-times",
            "group: the axis tp; tensors know what it leaves out",
            ("fsdp2-tp", "hand-sharded", "ddp", "pipeline-tied"),
        ),
        ("separate-group-norms", "experts apart from others", ("ep-dp", "ep-fsdp2", "ddp")),
        ("separate-group-norms", "biases and norms apart from others", ("hand-sharded", "fsdp2-tp", "ddp")),
    ],
)
def test_a_program_that_is_right_but_for_one_thing_is_named(slug, reading, layouts):
    (diagnosis,) = diagnosed(of(slug, "failing", reading), layouts=layouts)

    assert slug in {name.mechanism for each in diagnosis.candidates for name in each.together[0]}
    assert all(len(each.together[0]) == 1 for each in diagnosis.candidates), "one mistake is enough"
