"""Options that several `shardproof map` commands share, and how their texts are read."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from enum import StrEnum

import typer
from rich.console import Console

from shardproof.cli.exits import Exit
from shardproof.errors import InvalidValueError
from shardproof.failures.cases import RegistryError
from shardproof.failures.cluster import ClusterError
from shardproof.failures.kept import ResultsError
from shardproof.isolation import IsolationUnavailableError

MEMBERS = typer.Option(help="The folder of repairs; default: the member distribution, or members/ of a checkout.")
VARIANTS = typer.Option(help="Variant numbers beside each mechanism's own, as in 1-250 or 4,7.")

PLAIN_WIDTH = 160
"""Columns where the output is no terminal and its width is nobody's screen."""


class CaseLevel(StrEnum):
    """How a case's programs are held."""

    PROCESS = "process"
    NAMESPACES = "namespaces"
    NONE = "none"


def numbers(text: str) -> list[int]:
    """Read variant numbers as in `1-3,7`.

    Raises:
        InvalidValueError: a part is neither a number from 1 to 100000 nor two of them with a hyphen between.
    """
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r" *([1-9][0-9]{0,4}|100000)(?:-([1-9][0-9]{0,4}|100000))? *", part)
        if not ends or int(ends[2] or ends[1]) < int(ends[1]):
            raise InvalidValueError(f"Expected variants as in 1-250 or 4,7, got {part!r}.")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return found


def plain_console() -> Console:
    """A console as wide as the terminal, or of a fixed width where the output is none."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turn a level or cluster that cannot be had into exit 3, and a registry or results that do not fit into exit 4."""
    try:
        yield
    except (IsolationUnavailableError, ClusterError) as error:
        typer.echo(f"shardproof: could not tell: {error}", err=True)
        raise typer.Exit(Exit.COULD_NOT_TELL) from error
    except (RegistryError, ResultsError) as error:
        typer.echo(f"shardproof: {error}", err=True)
        raise typer.Exit(Exit.MISMATCH) from error
