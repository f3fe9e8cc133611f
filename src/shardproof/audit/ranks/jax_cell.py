"""One cell of a jax subject: one process whose simulated devices play the ranks."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shardproof.audit.layouts import Layout
from shardproof.audit.ranks.cell import BUILD_S, IMPORT_S, KEPT_LOG, Outcome, call_limit, signal_name
from shardproof.audit.ranks.channel import Message
from shardproof.audit.ranks.launch import Rank, gather, ranks_of, tell
from shardproof.records.audit import Call, CellStatus, FixturePlan, Piece, RankObservation

COMPILE_S: Final = 60.0
"""What a call may take beyond a call of torch: it is compiled."""


def observe_jax_cell(layout: Layout, fixtures: Sequence[FixturePlan], spec: str, timeout_s: float) -> Outcome:
    """Run a jax subject under a layout on simulated devices and return what was seen of each of them."""
    norm_type = fixtures[0].norm_type if fixtures else 2.0
    with (
        tempfile.TemporaryDirectory(prefix="shardproof-cell-", ignore_cleanup_errors=True) as scratch,
        ranks_of(
            layout,
            spec,
            plain_function=False,
            scratch=Path(scratch),
            timeout_s=timeout_s,
            norm_type=norm_type,
            processes=1,
        ) as (process,),
    ):
        answer = _said(process, ["built", "unavailable", "outside", "broken"], BUILD_S)
        if answer is None or answer.say != "built":
            return _not_built(process, answer)
        pieces = [[Piece.model_validate(piece) for piece in each] for each in answer.body]
        process.stage = "importing the subject"
        answer = _said(process, ["loaded", "outside", "import failed"], IMPORT_S)
        if answer is not None and answer.say == "outside":
            return Outcome("outside", str(answer.body), ())
        failed = str(answer.body) if answer is not None and answer.say == "import failed" else None
        loaded = answer is not None and answer.say == "loaded"
        process.stage = "waiting for a call" if answer is not None else process.stage
        calls = _calls(process, fixtures, timeout_s, layout.world_size) if loaded else []
        ranks = tuple(
            RankObservation(
                rank=rank,
                stage=process.stage,
                pieces=tuple(pieces[rank]),
                import_error=failed,
                exit_code=process.process.exitcode if process.ended else None,
                signal=signal_name(process.process.exitcode) if process.ended else None,
                calls=tuple(call[rank] for call in calls),
                log=process.text[-KEPT_LOG:],
            )
            for rank in range(layout.world_size)
        )
    return Outcome("ran", None if loaded else "the subject was not loaded", ranks)


def _calls(process: Rank, fixtures: Sequence[FixturePlan], timeout_s: float, world_size: int) -> list[tuple[Call, ...]]:
    calls: list[tuple[Call, ...]] = []
    for fixture in fixtures:
        tell([process], Message("call", fixture.model_dump(mode="json")))
        answer = _said(process, ["called"], call_limit(timeout_s) + COMPILE_S)
        if answer is None:
            outcome = "died" if process.ended else "did not return"
            stuck = Call.model_validate({"fixture": fixture.name, "outcome": outcome, "stage": process.stage})
            return [*calls, (stuck,) * world_size]
        process.stage = "waiting for a call"
        calls.append(tuple(Call.model_validate(each) for each in answer.body))
    return calls


def _said(process: Rank, wanted: Sequence[str], seconds: float) -> Message | None:
    return gather([process], wanted, seconds)[0]


def _not_built(process: Rank, answer: Message | None) -> Outcome:
    if answer is None:
        ended = f"the devices' process ended with exit code {process.process.exitcode}. {process.text[-500:]}"
        return Outcome("harness failed", ended if process.ended else f"no devices after {BUILD_S:g} s", ())
    words: dict[str, CellStatus] = {"unavailable": "unavailable", "outside": "outside"}
    return Outcome(words.get(answer.say, "harness failed"), str(answer.body), ())
