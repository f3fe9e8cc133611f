"""Running one function on every rank of a layout, for tests of what works on real process groups."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardproof.audit.fixtures import fixtures
from shardproof.audit.layouts import LAYOUTS, Layout
from shardproof.audit.ranks.channel import Message
from shardproof.audit.ranks.launch import Rank, gather, ranks_of, tell
from shardproof.errors import InvalidValueError, ParticipationError
from shardproof.records.audit import FixturePlan


@dataclass(frozen=True)
class RankResult:
    """What the function returned on one rank, or why it did not."""

    rank: int
    value: Any = None
    error: str | None = None
    log: str = ""


def on_every_rank(
    layout: str | Layout,
    work: Callable[..., Any] | str,
    *arguments: Any,
    fixture: str = "over",
    timeout_s: float = 10.0,
    wall_s: float = 90.0,
) -> list[Any]:
    """Call `work(ctx, *arguments)` on every rank of a layout in real gloo processes; return the values by rank.

    Args:
        layout: a layout or its name.
        work: a function at the top level of a file, or "file.py:name". The file is imported on each rank.
            Its ctx has the layout's parameters (`ctx.params`), with the fixture's gradients set.
        arguments: JSON-able values passed on.
        fixture: which of the layout's gradients and limits to set.
        timeout_s: seconds a collective may take.
        wall_s: seconds everything may take.

    Returns:
        One JSON-able value for each rank.

    Raises:
        ParticipationError: a rank raised, ended or did not come back; the message holds its traceback and prints.
    """
    results = results_on_every_rank(layout, work, *arguments, fixture=fixture, timeout_s=timeout_s, wall_s=wall_s)
    failed = [f"rank {each.rank}: {each.error}\n{each.log}" for each in results if each.error is not None]
    if failed:
        raise ParticipationError("Expected a value from every rank, got\n" + "\n".join(failed))
    return [each.value for each in results]


def results_on_every_rank(
    layout: str | Layout,
    work: Callable[..., Any] | str,
    *arguments: Any,
    fixture: str = "over",
    timeout_s: float = 10.0,
    wall_s: float = 90.0,
) -> list[RankResult]:
    """The same, with a rank's failure as a result: for tests in which some ranks are meant to raise."""
    laid = LAYOUTS[layout] if isinstance(layout, str) else layout
    body = {"fixture": _fixture(laid, fixture).model_dump(mode="json"), "arguments": arguments}
    with (
        tempfile.TemporaryDirectory(prefix="shardproof-ranks-", ignore_cleanup_errors=True) as scratch,
        ranks_of(laid, _spec(work), plain_function=True, scratch=Path(scratch), timeout_s=timeout_s) as ranks,
    ):
        answers = gather(ranks, ["loaded", "import failed", "broken", "unavailable"], wall_s, alarm=_bad)
        if all(answer and answer.say == "loaded" for answer in answers):
            tell(ranks, Message("function", body))
            # No alarm: a rank that raises early must not cut short those that are meant to raise later.
            answers = gather(ranks, ["value", "raised"], wall_s)
        return [_result(rank, answer) for rank, answer in zip(ranks, answers, strict=True)]


def _bad(message: Message) -> bool:
    return message.say != "loaded"


def _result(rank: Rank, answer: Message | None) -> RankResult:
    if answer is None:
        code = rank.process.exitcode
        error = f"ended with exit code {code}" if rank.ended else f"did not come back ({rank.stage})"
        return RankResult(rank.rank, error=error, log=rank.text)
    if answer.say != "value":
        return RankResult(rank.rank, error=str(answer.body or answer.say), log=rank.text)
    return RankResult(rank.rank, value=answer.body, log=rank.text)


def _fixture(layout: Layout, name: str) -> FixturePlan:
    named = {each.name: each for each in fixtures(layout)}
    if name not in named:
        raise InvalidValueError(f"Expected a fixture of {layout.name} out of {', '.join(named)}, got {name!r}.")
    return named[name]


def _spec(work: Callable[..., Any] | str) -> str:
    if isinstance(work, str):
        return work
    if not inspect.isfunction(work) or "<locals>" in work.__qualname__:
        raise InvalidValueError(f"Expected a function at the top level of a file, got {work!r}.")
    return f"{inspect.getsourcefile(inspect.unwrap(work))}:{work.__qualname__}"
