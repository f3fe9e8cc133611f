"""Shrinking: Hypothesis looks for the fewest ranks, tensors and rows, and then for the simplest numbers, that fail.

First over parts of the layout, each tried in processes of its own; then over numbers and limits, in processes that
stay. Every try is a real call on real ranks, and a failure counts only where the control holds under the same layout.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shardproof.audit import checks
from shardproof.audit.agreement import wanted
from shardproof.audit.clauses import NORM_GLOBAL, SCALE_FACTOR
from shardproof.audit.layouts import LAYOUTS, Layout
from shardproof.audit.ranks import Outcome
from shardproof.audit.run import layout_plan
from shardproof.audit.shrink_calls import elements, norm_of, probes, simple_limits, special, with_values
from shardproof.audit.shrink_layouts import FIXED, Part, everything, most_rows, part_of
from shardproof.audit.shrink_trials import Failure, Trials, failure_of
from shardproof.errors import InvalidValueError
from shardproof.records.audit import CellObservation, CellPlan, FixturePlan, LayoutPlan, Plan, Profile
from shardproof.records.shrunk import Kept, Shrunk, ShrunkRank

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

Case = TypeVar("Case")

MOST_TRIES: Final = 400
LARGEST: Final = 9
"""The largest integer that is drawn for an element; the last one makes the norm an integer and may be larger."""
MAIN: Final = frozenset({NORM_GLOBAL, SCALE_FACTOR})
"""Of the clauses that a call violates, those that have to stay violated where it violates one of them."""
PARTS, NUMBERS = 60, 200
"""How many parts, and how many choices of numbers, Hypothesis draws before it gives up looking for one that fails."""


class NotShrunkError(InvalidValueError):
    """The failure was not seen again when its call was made alone: nothing can be said about a smaller one."""


def shrink(
    plan: Plan,
    digest: str,
    cell: CellPlan,
    seen: CellObservation,
    *,
    seconds: float = 120.0,
    clause: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Shrunk:
    """Reduce a failing cell of a stored run to the smallest case that still fails in the same clauses.

    Args:
        plan, digest: the run's plan and its SHA-256.
        cell, seen: the cell, and what was observed of it.
        seconds: how long new tries are begun.
        clause: this clause has to stay violated; None: the norm's and the factor's, else all that the call violates.
        progress: is told what is being looked for.

    Raises:
        InvalidValueError: Hypothesis is not installed, or no call of the cell failed.
        NotShrunkError: the failure is not seen when its call is made alone, or the last fresh run did not show it.
    """
    _needs_hypothesis()
    started = time.monotonic()
    planned = next(each for each in plan.layouts if each.name == cell.layout)
    subject = next(each for each in plan.subjects if each.name == cell.subject)
    call, failure, profile = failing_call(planned, seen, clause)
    trials = Trials(subject, profile, plan.timeout_s, MOST_TRIES, started + seconds)
    try:
        whole = LAYOUTS[cell.layout]
        found = trials.look(whole, call, failure)
        if found is None or not found.covers(failure):
            raise NotShrunkError(
                f"Expected {cell.id} to fail {sorted(failure.clauses)} again when {call.name!r} is called alone, it "
                "did not. It may depend on earlier calls, or differ from run to run: see `audit run --repeat`."
            )
        progress("fewest ranks and tensors")
        kept, part, call = _fewest(trials, whole, call, failure)
        progress("simplest numbers")
        call = _simplest(trials, part.layout, call, failure)
        trials.close()
        smaller = layout_plan(part.layout, calls=(call,))
        outcome = trials.observe(subject.spec, part.layout, call)
    finally:
        trials.close()
    last = failure_of(smaller, call, outcome, profile)
    if last is None or not last.covers(failure):
        raise NotShrunkError(f"Expected the smallest case of {cell.id} to fail in fresh processes too, it did not.")
    return Shrunk(
        plan_sha256=digest,
        cell=cell.id,
        subject=subject,
        profile=profile,
        word=last.word,
        clauses=tuple(sorted(last.clauses)),
        kind=whole.kind,
        layout=smaller,
        kept=kept,
        limit=call.limit,
        norm=norm_of(call),
        ranks=tuple(_ranks(smaller, call, outcome)),
        observation=outcome.ranks,
        tries=trials.tries,
        seconds=round(time.monotonic() - started, 1),
        notes=(f"tries or time ({seconds:g} s) were used up: a smaller case may exist",) if trials.spent() else (),
    )


def failing_call(
    planned: LayoutPlan, seen: CellObservation, clause: str | None = None, *, every: bool = False
) -> tuple[FixturePlan, Failure, Profile]:
    """The call that violates most clauses, the first of them; of core where core is violated, else of strict.

    Of what it violates, the failure has the clauses that a smaller case has to violate too, or `every` one.

    Raises InvalidValueError where no call fails alone.
    """
    outcome = Outcome(seen.status, seen.note, seen.ranks)
    profiles: tuple[Profile, ...] = ("core", "strict")
    for profile in profiles:
        failures = [
            (call, failure)
            for call in planned.fixtures
            if (profile == "strict" or call.profile == "core")
            and any(each.fixture == call.name for rank in seen.ranks for each in rank.calls)
            and (failure := failure_of(planned, call, outcome, profile)) is not None
            and (clause is None or clause in failure.clauses)
        ]
        if failures:
            call, failure = max(failures, key=lambda each: len(each[1].clauses))
            kept = failure.clauses if every else failure.clauses & ({clause} if clause else MAIN) or failure.clauses
            return call, dataclasses.replace(failure, clauses=kept), profile
    of = f" of {clause}" if clause else ""
    raise InvalidValueError(f"Expected a cell with a violation{of} to shrink, got {seen.cell}, which shows none.")


def _fewest(trials: Trials, whole: Layout, call: FixturePlan, failure: Failure) -> tuple[Kept, Part, FixturePlan]:
    def fails(kept: Kept) -> bool:
        return _failing_probe(trials, whole, kept, call, failure) is not None

    kept = everything(whole)
    if whole.kind not in FIXED:
        kept = _smallest(parts(whole), fails, PARTS) or kept
    smaller = _failing_probe(trials, whole, kept, call, failure)
    return kept, part_of(whole, kept), smaller or call


def _failing_probe(
    trials: Trials, whole: Layout, kept: Kept, call: FixturePlan, failure: Failure
) -> FixturePlan | None:
    try:
        part = part_of(whole, kept)
    except InvalidValueError:  # slices that no longer add up
        return None
    trained = [tensor for tensor in part.layout.tensors if not tensor.frozen]
    return trials.failure(part.layout, probes(part, call), failure) if trained else None


def parts(layout: Layout) -> SearchStrategy[Kept]:
    """Parts of a layout, the smallest first: few ranks before few tensors before few rows."""
    from hypothesis import strategies

    # The whole is drawn more often than Hypothesis would: most failures need most axes, and shrink from there.
    def subsets(size: int) -> list[tuple[int, ...]]:
        some = [each for count in range(1, size + 1) for each in itertools.combinations(range(size), count)]
        return [*some, tuple(range(size)), tuple(range(size))]

    @strategies.composite
    def draw_part(draw: DrawFn) -> Kept:
        places = {axis: draw(strategies.sampled_from(subsets(size))) for axis, size in layout.axes.items()}
        stays = [draw(strategies.sampled_from([False, True, True])) for _ in layout.tensors]
        longest = {
            tensor.name: tuple(draw(strategies.integers(min(1, most), most)) for most in most_rows(tensor))
            for tensor in layout.tensors
        }
        chosen = tuple(tensor.name for tensor, stay in zip(layout.tensors, stays, strict=True) if stay)
        return Kept(places=places, tensors=chosen, longest=longest)

    return draw_part()


def _simplest(trials: Trials, layout: Layout, call: FixturePlan, failure: Failure) -> FixturePlan:
    free = elements(layout, call)

    def fails(choice: tuple[list[int], int]) -> bool:
        made = _made(layout, call, free, choice)
        return made is not None and trials.failure(layout, [made], failure) is not None

    for whole in (True, False):
        choice = _smallest(_numbers(len(free), whole and not special(call)), fails, NUMBERS)
        made = _made(layout, call, free, choice) if choice is not None else None
        if made is not None:
            return made
    return call


def _made(
    layout: Layout, call: FixturePlan, free: Sequence[tuple[str, int]], choice: tuple[list[int], int]
) -> FixturePlan | None:
    """The call of a choice: these integers, and that one of the simple limits; None where there is no such limit."""
    values, which = choice
    zero = not any(value for row in call.gradients.values() for value in row)
    made = with_values(call, free, [0] * len(free) if zero else values, call.limit)
    if not zero and not any(values):
        return None
    limits = list(simple_limits(layout, made))
    return made.model_copy(update={"limit": limits[which]}) if which < len(limits) else None


def _numbers(count: int, whole_norm: bool) -> SearchStrategy[tuple[list[int], int]]:
    from hypothesis import strategies

    drawn = strategies.lists(
        strategies.integers(0, LARGEST), min_size=max(count - whole_norm, 0), max_size=max(count - whole_norm, 0)
    )
    values = drawn.map(completed) if whole_norm and count else drawn
    return strategies.tuples(values, strategies.integers(0, 5))


def completed(values: Sequence[int]) -> list[int]:
    """The integers with the smallest one behind them that makes their norm an integer; with 0 where none does.

    >>> completed([3]), completed([1, 2]), completed([0])
    ([3, 4], [1, 2, 2], [0, 1])
    """
    square = sum(value * value for value in values)
    found = (last for last in range(1, square // 2 + 2) if math.isqrt(square + last * last) ** 2 == square + last**2)
    return [*values, next(found, 0)]


def _smallest(strategy: SearchStrategy[Case], fails: Callable[[Case], bool], draws: int) -> Case | None:
    """The simplest case that fails, as Hypothesis finds and shrinks it; None where it finds none."""
    from hypothesis import HealthCheck, Phase, Verbosity, find, settings
    from hypothesis.errors import NoSuchExample

    chosen: Any = settings(
        database=None,
        deadline=None,
        derandomize=True,
        max_examples=draws,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    try:
        return find(strategy, fails, settings=chosen)
    except NoSuchExample:
        return None


def _needs_hypothesis() -> None:
    try:
        import hypothesis  # noqa: F401
    except ImportError as error:
        raise InvalidValueError(
            "Shrinking needs Hypothesis, which is not installed: pip install hypothesis (the extra shardproof[audit])."
        ) from error


def _ranks(layout: LayoutPlan, call: FixturePlan, seen: Outcome) -> list[ShrunkRank]:
    right = wanted(layout, call)[0]
    return [
        ShrunkRank(
            rank=rank.rank,
            names=tuple(piece.entry for piece in layout.pieces if piece.rank == rank.rank),
            given=tuple(
                tuple(call.gradients[piece.tensor][index] for index in piece.indices)
                for piece in layout.pieces
                if piece.rank == rank.rank
            ),
            right=tuple(row or () for row in right[rank.rank].values or ()),
            observed=tuple(each.after for made in rank.calls for each in made.slices),
            norm=next((checks.norm_of(made.returned) for made in rank.calls if made.returned), None),
            error=next((made.error or made.outcome for made in rank.calls if made.outcome != "returned"), None),
        )
        for rank in seen.ranks
    ]
