"""Where results of cases are kept: one JSONL that is appended to as cases finish, and a cache by key."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from pydantic import ValidationError

from shardproof.errors import InvalidValueError
from shardproof.failures.judge import misremembered
from shardproof.failures.store import record_text, write_record
from shardproof.records.map import CaseResult, MapSummary

RESULTS = "results.jsonl"
SUMMARY = "summary.json"
LOCK = ".lock"


class ResultsError(InvalidValueError):
    """A file of results does not fit its schema; it was made by another version, or changed."""


def cache_folder() -> Path:
    """Where unchanged cases are remembered: $XDG_CACHE_HOME/shardproof/map, else ~/.cache/shardproof/map."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "shardproof" / "map"


def cached(folder: Path, key: str) -> CaseResult | None:
    """The result remembered under `key`; None where there is none that can be read."""
    try:
        result = CaseResult.model_validate_json(_cache_file(folder, key).read_bytes())
    except (OSError, ValidationError):
        # Written without fsync: a file that a crash left torn is a miss, and is written again.
        return None
    return result if result.key == key else None


def remember(folder: Path, result: CaseResult) -> None:
    """Keep a result that held; what did not hold, or could not be told, is run again the next time.

    Raises:
        InvalidValueError: the folder cannot be written.
    """
    if result.verdict != "held":
        return
    path = _cache_file(folder, result.key)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(result.model_dump_json(), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise InvalidValueError(
            f"Expected a cache that can be written, got {folder}: {error.strerror}. Set XDG_CACHE_HOME."
        ) from error


def _cache_file(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.json"


def read_results(path: Path) -> Iterator[CaseResult]:
    """Read a file of results, one after the other; a last line that a kill cut short is left out.

    Raises:
        ResultsError: a whole line does not fit the schema.
    """
    return (result for _, result in _lines(path))


@dataclasses.dataclass(frozen=True)
class Before:
    """What has to be known of a case that an earlier run verified; small, so that ten thousand need no memory."""

    runs: int
    """The fewest times that one of its programs was run."""
    programs: int
    held_back: bool


def resume(folder: Path) -> dict[str, Before]:
    """What an earlier run that was killed left in `folder` and that held, by key.

    The file is written again with these lines alone, to be appended to: what did not hold is run again, as it is with
    the cache, and a line that was cut short is dropped. Where a finished run left its summary, all is begun anew.

    Raises:
        ResultsError: a line does not fit the schema.
        InvalidValueError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / RESULTS
        if (folder / SUMMARY).exists():
            path.unlink(missing_ok=True)
            (folder / SUMMARY).unlink()
        return _keep_held(path) if path.exists() else {}
    except OSError as error:
        raise _unwritten(folder, error) from error


def _keep_held(path: Path) -> dict[str, Before]:
    found: dict[str, Before] = {}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as kept:
        for line, result in _lines(path):
            if result.key not in found and not misremembered(result):
                runs = min(program.runs for program in result.programs)
                found[result.key] = Before(runs, len(result.programs), result.repair == "held back")
                kept.write(line)
        kept.flush()
        os.fsync(kept.fileno())
    temporary.replace(path)
    return found


def _lines(path: Path) -> Iterator[tuple[bytes, CaseResult]]:
    """Each whole line with its result; what a kill cut short is the last one."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                result = CaseResult.model_validate_json(line)
            except ValidationError as error:
                raise ResultsError(
                    f"Expected a case's result in {path}, line {number}: {error.errors()[0]['msg']}."
                ) from None
            yield line, result


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[tuple[dict[str, Before], Callable[[CaseResult], None]]]:
    """Hold a folder of results alone: what an earlier run left in it, and a function that appends a result.

    Raises:
        ResultsError: a line that is there does not fit the schema.
        InvalidValueError: the folder cannot be written, or another run is writing into it.
    """
    with contextlib.ExitStack() as opened:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Released with the process, however it ends; the file stays, since removing it would race.
            fcntl.flock(opened.enter_context((folder / LOCK).open("w")), fcntl.LOCK_EX | fcntl.LOCK_NB)
            known = resume(folder)
            file = opened.enter_context((folder / RESULTS).open("ab", buffering=0))
        except BlockingIOError:
            raise InvalidValueError(
                f"Expected a folder that no other run writes into, got {folder}: wait for it, or name another folder."
            ) from None
        except OSError as error:
            raise _unwritten(folder, error) from error
        yield known, _appender(file, folder)


def _appender(file: FileIO, folder: Path) -> Callable[[CaseResult], None]:
    """A function that appends one result as one line, past every buffer of this process."""

    def append(result: CaseResult) -> None:
        rest = f"{result.model_dump_json()}\n".encode()
        try:
            while rest:
                rest = rest[file.write(rest) or 0 :]
        except OSError as error:
            raise _unwritten(folder, error) from error

    return append


def _unwritten(folder: Path, error: OSError) -> InvalidValueError:
    return InvalidValueError(f"Expected a folder that can be written, got {folder}: {error.strerror}.")


def write_summary(folder: Path, summary: MapSummary) -> None:
    """Write the summary, which marks the run as come to its end.

    Raises:
        InvalidValueError: it cannot be written.
    """
    write_record(folder / SUMMARY, record_text(summary) + "\n")
