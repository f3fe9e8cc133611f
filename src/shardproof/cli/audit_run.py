"""`shardproof audit run`: choose subjects and layouts, run them, show what came of it."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardproof.cli.audit_stored import AsJson, Files, HtmlFile, JunitFile, SarifFile, refusing, show, write_reports
from shardproof.errors import InvalidValueError

if TYPE_CHECKING:
    from shardproof.audit.layouts import Layout
    from shardproof.audit.run import Progress
    from shardproof.records.audit import Profile

SUBJECT_HELP = (
    "What is audited: torch, torch-total-norm, fsdp1, accelerate, fabric, deepspeed, optax, optax-shard-map or "
    "shardproof; or pkg.module:callable or file.py:callable, called on every rank as clip(params, max_norm, ctx), "
    "scaling the .grad of params in place and returning the norm; or an object or class there with such a method clip, "
    "and perhaps capabilities and build(ctx); after `jax:` a callable (grads, max_norm, ctx) -> (grads, norm)."
)

BAR = 20
"""Characters of the progress bar."""


class ProfileName(StrEnum):
    """Which clauses decide."""

    CORE = "core"
    STRICT = "strict"


ProfileOption = Annotated[
    ProfileName, typer.Option("--profile", help="Which clauses decide: core, or strict, which adds bits and policies.")
]
WaiveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--waive", metavar="CLAUSE=REASON", help="A violation of this clause decides nothing; may be repeated."
    ),
]


def run(
    subjects: Annotated[
        list[str] | None, typer.Argument(metavar="SUBJECT...", help=SUBJECT_HELP, show_default=False)
    ] = None,
    layout: Annotated[
        list[str] | None, typer.Option("--layout", metavar="NAME", help="Only this layout; may be repeated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the quick layouts: under 20 seconds for one subject.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the layouts and stop.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="New folder for the run. Default: audit-runs/TIME.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Go on with a stored run that was interrupted.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that a collective may take.")] = 5.0,
    norm_type: Annotated[
        float, typer.Option("--norm-type", help="The order of the norm that the subject is asked for: 1, 2, inf, ...")
    ] = 2.0,
    repeat: Annotated[
        int, typer.Option("--repeat", help="How often each cell is run; a failing one at least twice.")
    ] = 1,
    profile: ProfileOption = ProfileName.CORE,
    waive: WaiveOption = None,
    html: HtmlFile = None,
    junit: JunitFile = None,
    sarif: SarifFile = None,
    json_: AsJson = False,
) -> None:
    """Run subjects under layouts in real processes, store what is observed, grade it.

    Exits 0 when every cell passed, 1 when a clause is violated, 2 when the command cannot be used, 3 when no verdict
    could be reached, 5 when nothing ran.
    """
    layouts = chosen(layout or (), quick)
    if list_:
        for each in layouts:
            typer.echo(f"{each.name:20} {each.world_size} rank{'s' if each.world_size > 1 else ' '}  {each.title}")
        return
    files, waived = Files(html=html, junit=junit, sarif=sarif), waivers(waive)
    if repeat < 1:
        raise InvalidValueError(f"Expected --repeat to be at least 1, got {repeat}.")
    folder = (
        _begun(subjects, layouts, timeout, norm_type, out) if resume is None else _resumed(resume, subjects, layout)
    )
    with refusing():
        _go_on(folder, files, repeat, profile.value, waived)
    write_reports(folder, files)
    raise typer.Exit(show(folder, as_json=json_).verdict.exit_code)


def waivers(options: Sequence[str] | None) -> Mapping[str, str]:
    """The waivers of the command line; raises InvalidValueError for one without a reason or of no clause."""
    from shardproof.audit.clauses import CLAUSES

    pairs = [option.partition("=") for option in options or ()]
    if unsaid := [clause for clause, _, reason in pairs if not reason.strip()]:
        raise InvalidValueError(f"Expected --waive CLAUSE=REASON, got {unsaid[0]!r} without a reason. Say why.")
    if unknown := [clause for clause, _, _ in pairs if clause not in CLAUSES]:
        raise InvalidValueError(f"Expected --waive with one of {', '.join(CLAUSES)}, got {unknown[0]!r}.")
    return {clause: reason.strip() for clause, _, reason in pairs}


def progress_line() -> Callable[[Progress], None]:
    """A line on standard error for each cell: a bar rewritten in place on a terminal, one below the other elsewhere."""
    terminal = sys.stderr.isatty()

    def tell(step: Progress) -> None:
        text = f"[{step.number}/{step.total}] {step.subject} under {step.layout}"
        done = BAR * (step.number - 1) // step.total
        line = f"\r\x1b[K{'#' * done}{'.' * (BAR - done)} {text}"[: shutil.get_terminal_size().columns + 3]
        sys.stderr.write(line if terminal else f"{text}\n")
        sys.stderr.write("\n" if terminal and step.number == step.total else "")
        sys.stderr.flush()

    return tell


def chosen(names: Sequence[str], quick: bool) -> Sequence[Layout]:
    """The layouts that --layout and --quick choose; all of them for neither."""
    from shardproof.audit.layouts import QUICK, named

    if quick and names:
        raise InvalidValueError("Expected --quick or --layout, got both. Leave one out.")
    return named(QUICK if quick else names)


def _begun(
    subjects: Sequence[str] | None, layouts: Sequence[Layout], timeout: float, norm_type: float, out: Path | None
) -> Path:
    from shardproof.audit.run import begin, plan_of

    if not subjects:
        raise InvalidValueError("Expected a subject, got none. Pass torch, shardproof, pkg.module:callable or a file.")
    _look_in_working_directory()
    plan = plan_of(subjects, layouts, timeout_s=timeout, command=["shardproof", *sys.argv[1:]], norm_type=norm_type)
    folder = out if out is not None else Path("audit-runs") / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    begin(folder, plan)
    return folder


def _resumed(folder: Path, subjects: Sequence[str] | None, layouts: Sequence[str] | None) -> Path:
    if subjects or layouts:
        raise InvalidValueError("Expected --resume alone, got subjects or layouts too: the stored plan names them.")
    _look_in_working_directory()
    return folder


def _go_on(folder: Path, files: Files, repeat: int, profile: Profile, waived: Mapping[str, str]) -> None:
    from shardproof.audit.run import go_on, regrade

    regrade(folder, profile=profile, waivers=waived)
    write_reports(folder, files)  # every cell as not run: what is left where the harness is killed
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        go_on(folder, progress_line(), repeat=repeat, profile=profile, waivers=waived)
    except KeyboardInterrupt:
        typer.echo(
            "\nInterrupted; what was observed so far is stored and graded. "
            f"To go on: shardproof audit run --resume {folder}",
            err=True,
        )
    finally:
        signal.signal(signal.SIGTERM, before)


def _look_in_working_directory() -> None:
    if "" not in sys.path:
        sys.path.insert(0, "")  # a console script, unlike `python -m`, does not look in the working directory
