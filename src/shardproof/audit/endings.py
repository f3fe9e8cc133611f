"""How calls ended that did not return: raised, hung, or took their process with them, and on which ranks."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from shardproof.records.audit import CellWord, RankObservation


def ended_badly(ranks: Sequence[RankObservation]) -> tuple[CellWord, str, tuple[int, ...]] | None:
    """The verdict on calls that did not all return: crash before error before hang, as each may cause the next."""
    dead = [rank for rank in ranks if rank.exit_code is not None]
    if dead:
        return "crash", _crash(dead), tuple(rank.rank for rank in dead)
    unloaded = [rank for rank in ranks if rank.import_error is not None]
    if unloaded:
        reason = f"import failed on {_listed(unloaded)}: {_last_line(unloaded[0].import_error)}"
        return "error", reason, tuple(rank.rank for rank in unloaded)
    raised = [rank for rank in ranks if _outcome(rank, "raised")]
    if raised:
        call = next(call for call in raised[0].calls if call.outcome == "raised")
        reason = f"{call.fixture}: {_listed(raised)} raised {shortened(call.error or '')}"
        return "error", reason, tuple(rank.rank for rank in raised)
    return _hang(ranks)


def _hang(ranks: Sequence[RankObservation]) -> tuple[CellWord, str, tuple[int, ...]] | None:
    waited = [rank for rank in ranks if _outcome(rank, "collective timeout")]
    stuck = [rank for rank in ranks if _outcome(rank, "did not return")]
    importing = [rank for rank in ranks if rank.stage == "importing the subject"]
    if not (waited or stuck or importing):
        return None
    fixture = next((rank.calls[-1].fixture for rank in [*waited, *stuck]), "import")
    parts = [f"{_listed(stuck)} did not come back ({stuck[0].calls[-1].stage})"] if stuck else []
    parts += [f"{_listed(waited)} waited in a collective until it timed out"] if waited else []
    parts += [f"{_listed(importing)} did not finish importing the subject"] if importing else []
    back = [rank for rank in ranks if rank not in [*waited, *stuck, *importing]]
    parts += [f"{_listed(back)} had returned"] if back else []
    named = tuple(sorted(rank.rank for rank in [*waited, *stuck, *importing]))
    return "hang", f"{fixture}: {', '.join(parts)}", named


def _crash(dead: Sequence[RankObservation]) -> str:
    first = dead[0]
    how = f"was ended by {first.signal}" if first.signal else f"ended with exit code {first.exit_code}"
    where = f"{first.calls[-1].fixture}: " if first.calls else ""
    return f"{where}rank {first.rank} {how} ({first.stage})" + (
        f"; so did {_listed(dead[1:])}" if len(dead) > 1 else ""
    )


def _outcome(rank: RankObservation, outcome: str) -> bool:
    return any(call.outcome == outcome for call in rank.calls)


def _listed(ranks: Sequence[RankObservation]) -> str:
    numbers = ", ".join(str(rank.rank) for rank in ranks)
    return f"rank {numbers}" if len(ranks) == 1 else f"ranks {numbers}"


def _last_line(text: str | None) -> str:
    return shortened((text or "").strip().rpartition("\n")[2])


def shortened(text: str) -> str:
    """One line of at most 400 characters, cut between words."""
    return textwrap.shorten(text, 400, placeholder=" ...") or text[:400].strip()
