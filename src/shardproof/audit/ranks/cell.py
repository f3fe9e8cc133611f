"""One cell: a subject under a layout, all its calls in one process group, and what was seen of them."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from shardproof.audit.layouts import Layout
from shardproof.audit.ranks.channel import Message
from shardproof.audit.ranks.launch import END_S, Rank, distrust, gather, ranks_of, tell
from shardproof.audit.subjects import framework_of
from shardproof.records.audit import Call, CallOutcome, CellStatus, FixturePlan, Piece, RankObservation

BUILD_S: Final = 120.0
IMPORT_S: Final = 180.0
KEPT_LOG: Final = 4000


@dataclass
class Seen:
    """What has been seen of one rank so far."""

    pieces: tuple[Piece, ...] = ()
    import_error: str | None = None
    calls: list[Call] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What became of a cell."""

    status: CellStatus
    note: str | None
    ranks: tuple[RankObservation, ...]


def call_limit(timeout_s: float) -> float:
    """How long one call may take by the harness's clock: two collective timeouts and three seconds."""
    return 2 * timeout_s + 3


def observe_cell(layout: Layout, fixtures: Sequence[FixturePlan], spec: str, timeout_s: float) -> Outcome:
    """Run a subject under a layout in real processes and return what was seen; nothing is judged here."""
    if framework_of(spec) == "jax":
        from shardproof.audit.ranks.jax_cell import observe_jax_cell

        return observe_jax_cell(layout, fixtures, spec, timeout_s)
    norm_type = fixtures[0].norm_type if fixtures else 2.0
    with (
        tempfile.TemporaryDirectory(prefix="shardproof-cell-", ignore_cleanup_errors=True) as scratch,
        ranks_of(
            layout, spec, plain_function=False, scratch=Path(scratch), timeout_s=timeout_s, norm_type=norm_type
        ) as ranks,
    ):
        seen = [Seen() for _ in ranks]
        status, note = _set_up(ranks, seen)
        if status == "ran" and note is None:
            _calls(ranks, seen, fixtures, timeout_s)
        observations = tuple(_observation(rank, facts) for rank, facts in zip(ranks, seen, strict=True))
    return Outcome(status, note, observations)


@contextlib.contextmanager
def kept_warm(
    layout: Layout, spec: str, timeout_s: float, norm_type: float = 2.0
) -> Iterator[Callable[[FixturePlan], tuple[Outcome, bool]]]:
    """Ranks that stay for many calls of a subject under one layout.

    Yields a function that makes one call: what was seen of it alone, and whether another one can be made.
    """
    with (
        tempfile.TemporaryDirectory(prefix="shardproof-cell-", ignore_cleanup_errors=True) as scratch,
        ranks_of(
            layout, spec, plain_function=False, scratch=Path(scratch), timeout_s=timeout_s, norm_type=norm_type
        ) as ranks,
    ):
        seen = [Seen() for _ in ranks]
        status, note = _set_up(ranks, seen)
        ready = status == "ran" and note is None

        def call(fixture: FixturePlan) -> tuple[Outcome, bool]:
            for facts in seen:
                facts.calls.clear()
            if ready:
                _calls(ranks, seen, [fixture], timeout_s)
            observations = tuple(_observation(rank, facts) for rank, facts in zip(ranks, seen, strict=True))
            return Outcome(status, note, observations), ready and _in_step([facts.calls[-1] for facts in seen])

        yield call


def _in_step(calls: Sequence[Call]) -> bool:
    """Where all returned, or all raised, every rank is at the same place and the next call is a fair one."""
    return {call.outcome for call in calls} in ({"returned"}, {"raised"})


def _set_up(ranks: list[Rank], seen: list[Seen]) -> tuple[CellStatus, str | None]:
    """Build the layout and import the subject; a note means that no call can be made."""
    answers = gather(ranks, ["built", "unavailable", "broken"], BUILD_S, alarm=lambda message: message.say != "built")
    if any(answer and answer.say == "unavailable" for answer in answers):
        return "unavailable", next(str(each.body) for each in answers if each and each.say == "unavailable")
    if not all(answer and answer.say == "built" for answer in answers):
        return "harness failed", "the layout could not be built: " + _first_reason(ranks, answers)
    for facts, answer in zip(seen, answers, strict=True):
        facts.pieces = tuple(Piece.model_validate(piece) for piece in answer.body) if answer else ()
    for rank in ranks:
        rank.stage = "importing the subject"
    answers = gather(
        ranks, ["loaded", "outside", "import failed"], IMPORT_S, alarm=lambda message: message.say != "loaded"
    )
    if all(answer and answer.say == "outside" for answer in answers):
        return "outside", next(str(each.body) for each in answers if each)
    for rank, facts, answer in zip(ranks, seen, answers, strict=True):
        facts.import_error = str(answer.body) if answer and answer.say == "import failed" else None
        rank.stage = "waiting for a call" if answer else rank.stage
    if not all(answer and answer.say == "loaded" for answer in answers):
        return "ran", "the subject was not loaded on every rank"
    return "ran", None


def _calls(ranks: list[Rank], seen: list[Seen], fixtures: Sequence[FixturePlan], timeout_s: float) -> None:
    """Make the calls one after the other, until one leaves the ranks out of step."""
    for fixture in fixtures:
        tell(ranks, Message("call", fixture.model_dump(mode="json")))
        answers = gather(ranks, ["called"], call_limit(timeout_s), alarm=_went_wrong)
        calls = [_call(rank, fixture.name, answer) for rank, answer in zip(ranks, answers, strict=True)]
        if all(call.returned and call.returned.placements is not None for call in calls):
            calls = _resolved(ranks, calls, timeout_s)
        for facts, call in zip(seen, calls, strict=True):
            facts.calls.append(call)
        if not _in_step(calls):
            return


def _resolved(ranks: list[Rank], calls: list[Call], timeout_s: float) -> list[Call]:
    for rank in ranks:
        rank.stage = "in full_tensor() of what it returned"
    tell(ranks, Message("resolve"))
    answers = gather(ranks, ["resolved"], call_limit(timeout_s))
    return [_call(rank, call.fixture, answer) for rank, call, answer in zip(ranks, calls, answers, strict=True)]


def _went_wrong(message: Message) -> bool:
    return isinstance(message.body, dict) and message.body.get("outcome") == "raised"


def _call(rank: Rank, fixture: str, answer: Message | None) -> Call:
    if answer is not None and (call := _understood(rank, fixture, answer)):
        rank.stage = "waiting for a call"
        return call
    outcome: CallOutcome = "died" if rank.ended else "did not return"
    return Call(fixture=fixture, outcome=outcome, stage=rank.stage)


def _understood(rank: Rank, fixture: str, answer: Message) -> Call | None:
    """What a rank says of the call that it was asked to make; None, and the end of the rank, where it is no such."""
    with contextlib.suppress(ValidationError):
        call = Call.model_validate(answer.body)
        if call.fixture == fixture:
            return call
    distrust(rank, f"no account of the call {fixture}")
    gather([rank], [], END_S)
    return None


def _observation(rank: Rank, facts: Seen) -> RankObservation:
    code = rank.process.exitcode if rank.ended else None
    return RankObservation(
        rank=rank.rank,
        stage=rank.stage,
        pieces=facts.pieces,
        import_error=facts.import_error,
        exit_code=code,
        signal=signal_name(code),
        calls=tuple(facts.calls),
        log=rank.text[-KEPT_LOG:],
    )


def signal_name(code: int | None) -> str | None:
    """The name of the signal that ended a process; None where none did."""
    if code is None or code >= 0:
        return None
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


def _first_reason(ranks: list[Rank], answers: Sequence[Any]) -> str:
    for rank, answer in zip(ranks, answers, strict=True):
        if answer and answer.say == "broken":
            return f"rank {rank.rank}: {answer.body}"
        if rank.ended:
            return f"rank {rank.rank} ended with exit code {rank.process.exitcode}. {rank.text[-500:]}"
    waiting = [rank.rank for rank, answer in zip(ranks, answers, strict=True) if answer is None]
    return f"ranks {waiting} were not ready after {BUILD_S:g} s"
