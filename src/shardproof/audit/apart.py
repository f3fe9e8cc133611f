"""Where candidates of a diagnosis differ: a layout and a call that would tell them apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shardproof.audit.agreement import departs
from shardproof.audit.diagnosis import CORE, Point, Suspect, point_of, suspects_of
from shardproof.failures import Lowered
from shardproof.records.audit import Candidate, Diagnosis, LayoutPlan, TellApart

MOST: Final = 6
"""Candidates of one diagnosis that are compared; more are a sign that too few layouts were run."""

Key = tuple[str, str, str]


def tell_apart(diagnosis: Diagnosis, dictionary: Sequence[Lowered], others: Sequence[LayoutPlan]) -> Diagnosis:
    """The diagnosis with, for each two candidates, the first other layout and call on which they differ.

    Args:
        diagnosis: one of core; single mistakes are compared, pairs of mistakes are not.
        dictionary: the wrong implementations that it was made with.
        others: layouts that were not run, the cheapest first.
    """
    singles = [each for each in diagnosis.candidates if len(each.together[0]) == 1][:MOST]
    if diagnosis.scope != CORE or len(singles) < 2:
        return diagnosis
    points = [point_of(layout, call) for layout in others for call in layout.fixtures if call.profile == "core"]
    suspects: dict[Key, Suspect] = {
        (name.mechanism, name.implementation, name.reading): suspect
        for suspect in suspects_of(dictionary, points)
        for name in suspect.names
    }
    pairs = itertools.combinations(singles, 2)
    found = tuple(told for one, other in pairs if (told := _first(one, other, suspects, points)))
    return diagnosis.model_copy(update={"apart": found})


def _first(
    one: Candidate, other: Candidate, suspects: Mapping[Key, Suspect], points: Sequence[Point]
) -> TellApart | None:
    for left, right in itertools.product(_of(one, suspects), _of(other, suspects)):
        for point in points:
            a, b = left.answer(point), right.answer(point)
            if a is not None and b is not None and departs(a, b, point.norm_tolerance, point.element_tolerance):
                return TellApart(layout=point.layout.name, fixture=point.fixture, one=_said(one), other=_said(other))
    return None


def _of(candidate: Candidate, suspects: Mapping[Key, Suspect]) -> Iterator[Suspect]:
    for (name,) in candidate.together:
        suspect = suspects.get((name.mechanism, name.implementation, name.reading))
        if suspect is not None:
            yield suspect


def _said(candidate: Candidate) -> str:
    name = candidate.together[0][0]
    return f"{name.mechanism} ({name.implementation})"
