"""`shardproof clip`: the rule on gradients in files."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from shardproof.errors import InvalidValueError


def clip(
    limit: Annotated[float, typer.Option("--limit", help="Largest norm allowed, >= 0; inf: the norm only.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="JSON (a list of lists of numbers; - or nothing: standard input), or one .npy or .safetensors "
            "file for each rank.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write the scaled .npy and .safetensors files here."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, with norm and factor.")] = False,
) -> None:
    """Clip gradient shards by their global norm.

    Every value is multiplied by min(1, limit / norm), with one norm over all shards.

    JSON shards are printed clipped, rounded to 12 decimals; norm and factor go
    to standard error. Of .npy and .safetensors files, which together hold each
    element once, norm and factor are printed, and --out writes the scaled files.
    """
    names = files or ["-"]
    # NumPy and safetensors are loaded for the verb that needs them, not for `shardproof --help`.
    from shardproof.files import SUFFIXES

    if all(Path(name).suffix in SUFFIXES for name in names):
        _clip_files([Path(name) for name in names], limit, out, as_json)
        return
    if len(names) > 1:
        raise InvalidValueError(
            f"Expected one JSON input, or only files that end in {' or '.join(SUFFIXES)}, got {', '.join(names)}."
        )
    if out is not None:
        raise InvalidValueError("Expected --out with .npy or .safetensors files only; JSON shards are printed.")
    _clip_json(names[0], limit, as_json)


def _clip_json(name: str, limit: float, as_json: bool) -> None:
    from shardproof.files import clip_json

    found = clip_json(_read(name), limit, "standard input" if name == "-" else name)
    summary = {"norm": _number(found.norm), "factor": found.factor, "limit": _number(found.limit)}
    if as_json:
        _print(json.dumps(summary | {"shards": found.shards}, allow_nan=False))
        return
    _print(json.dumps(found.shards, allow_nan=False))
    typer.echo(f"norm {found.norm!r}, factor {found.factor!r}, limit {found.limit!r}", err=True)


def _clip_files(paths: list[Path], limit: float, out: Path | None, as_json: bool) -> None:
    from shardproof.files import clip_files

    found = clip_files(paths, limit, out)
    if as_json:
        listed = [
            {
                "file": str(file.path),
                "tensors": file.tensors,
                "elements": file.elements,
                "written": str(file.written) if file.written else None,
            }
            for file in found.files
        ]
        summary = {"norm": _number(found.norm), "factor": found.factor, "limit": _number(found.limit)}
        _print(json.dumps(summary | {"files": listed}, allow_nan=False))
        return
    lines = [f"norm    {found.norm!r}", f"factor  {found.factor!r}", f"limit   {found.limit!r}"]
    how = "copied " if found.factor == 1.0 else "scaled "
    lines += [f"{how} {file.path} -> {file.written}" for file in found.files if file.written]
    _print("\n".join(lines))


def _read(name: str) -> bytes:
    if name != "-":
        try:
            return Path(name).read_bytes()
        except OSError as error:
            raise InvalidValueError(f"Expected a readable file, got {name}: {error.strerror}.") from error
    if sys.stdin is None or sys.stdin.isatty():
        raise InvalidValueError("Expected a FILE, or JSON on standard input, got neither. See shardproof clip --help.")
    return sys.stdin.buffer.read()


def _print(text: str) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file name need not be text
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would try to flush again at exit and print a second, unhelpful message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise InvalidValueError(f"Standard output could not take the result: {error.strerror}.") from error


def _number(value: float) -> Any:
    return value if math.isfinite(value) else repr(value)
