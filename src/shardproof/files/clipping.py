"""The rule on gradient files: one exact norm over all of them, one factor, the same files scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shardproof.clip import checked_limit, factor_of_sum
from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.files.gradient_file import GradientFile
from shardproof.files.opening import open_gradient_file
from shardproof.files.reading import kernel_for, scaled_bytes, sum_of_squares
from shardproof.files.writing import Draft, write_all
from shardproof.sums import ExactSum


@dataclass(frozen=True)
class ClippedFile:
    """One rank's file: how much it holds, and where its clipped copy lies (None when none was asked for)."""

    path: Path
    tensors: int
    elements: int
    written: Path | None


@dataclass(frozen=True)
class ClippedFiles:
    """The global norm over all files, the limit, the factor, and the files."""

    norm: float
    limit: float
    factor: float
    files: tuple[ClippedFile, ...]


def clip_files(paths: Sequence[Path], limit: float | None, out: Path | None = None) -> ClippedFiles:
    """Return the global norm and factor of gradient files; with `out`, write the scaled files there.

    norm = sqrt(sum of value**2 over all tensors of all files), from the exact sum. A written value is
    float64(value) x factor, rounded once to the file's dtype; with factor one a file is copied byte for byte.

    Args:
        paths: `.npy` or `.safetensors`, one for each rank; together they hold each element once.
        limit: the largest norm allowed, >= 0; inf and None mean no limit.
        out: a folder, made when it is absent; files keep their names. Not the folder of an input.

    Raises:
        InvalidValueError: a bad limit, an unusable file, a NaN or infinite element, the same file twice, an
            `out` that would overwrite an input or that cannot be written.
        InvalidTypeError: elements that are no numbers, or integers that would have to be scaled.
    """
    limit = checked_limit(limit)
    files = [open_gradient_file(path) for path in paths]
    targets = _targets(paths, out)
    # By inode: a link is the same file, and its elements would count twice.
    _refuse_repeats("the same file twice", [(f.identity.device, f.identity.inode) for f in files], paths)
    kernel = kernel_for(files)
    squares = ExactSum(sum(sum_of_squares(file, kernel) for file in files))
    factor = factor_of_sum(squares, limit)
    if out is not None:
        _refuse_scaled_integers(files, factor)
        write_all(
            Draft(target, scaled_bytes(file, factor, kernel), file.path)
            for file, target in zip(files, targets, strict=True)
            if target is not None
        )
    clipped = tuple(
        ClippedFile(file.path, len(file.tensors), file.elements, target)
        for file, target in zip(files, targets, strict=True)
    )
    return ClippedFiles(squares.root(), limit, factor, clipped)


def _targets(paths: Sequence[Path], out: Path | None) -> list[Path | None]:
    """Where each file goes; refuses two files in one place and an input overwritten."""
    if out is None:
        return [None] * len(paths)
    _refuse_repeats(f"two files that would have one name in {out}", [path.name for path in paths], paths)
    for path in paths:
        if out.exists() and (out.samefile(path.parent) or out.samefile(path.resolve().parent)):
            raise InvalidValueError(f"Expected a folder other than the inputs' own, got out={out}, where {path} is.")
    return [out / path.name for path in paths]


def _refuse_repeats(what: str, keys: Sequence[object], paths: Sequence[Path]) -> None:
    seen: dict[object, Path] = {}
    for key, path in zip(keys, paths, strict=True):
        if key in seen:
            raise InvalidValueError(f"Expected each rank's file once, got {what}: {seen[key]} and {path}.")
        seen[key] = path


def _refuse_scaled_integers(files: Sequence[GradientFile], factor: float) -> None:
    for file in files:
        for tensor in file.tensors:
            if factor != 1.0 and tensor.element.format is None and tensor.elements:
                raise InvalidTypeError(
                    f"Expected floating-point elements to scale by {factor!r}, got {tensor.element.name} in "
                    f"{file.path}, {tensor.place(0)}. Convert the file, or leave out the output folder."
                )
