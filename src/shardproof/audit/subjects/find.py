"""Finding a subject: what its spec names, without importing it; and importing it, on a rank."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shardproof.audit.context import Context
from shardproof.audit.subjects.built_in import BUILT_IN
from shardproof.errors import InvalidValueError
from shardproof.records.audit import SubjectPlan

if TYPE_CHECKING:
    import torch

Clip = Callable[["list[torch.Tensor]", float, Context], object]

CONTROL: Final = "control"
JAX: Final = "jax:"
"""Before the spec of a callable of jax: `jax:pkg.mod:clip`, `jax:path.py:clip`."""


def framework_of(spec: str) -> str:
    """The framework that runs a subject: torch, or jax for what is named after `jax:`.

    >>> framework_of("jax:mine.py:clip"), framework_of("torch")
    ('jax', 'torch')
    """
    return BUILT_IN[spec].framework if spec in BUILT_IN else "jax" if spec.startswith(JAX) else "torch"


def parse(spec: str) -> SubjectPlan:
    """What a subject's spec names: a built-in one, `pkg.module:name` or `file.py:name`, the last two after `jax:`.

    The subject is not imported here. Raises InvalidValueError for what can be seen to be wrong all the same:
    no such file or module, no name, a name that the file does not contain.
    """
    if spec in BUILT_IN:
        return SubjectPlan(name=spec, spec=spec, framework=BUILT_IN[spec].framework)
    prefix = JAX if spec.startswith(JAX) else ""
    named = _named(spec.removeprefix(prefix))
    if not prefix:
        return named
    return named.model_copy(update={"name": prefix + named.name, "spec": prefix + named.spec, "framework": "jax"})


def _named(spec: str) -> SubjectPlan:
    where, _, name = spec.rpartition(":")
    if not where or not all(part.isidentifier() for part in name.split(".")):
        raise InvalidValueError(
            f"Expected {', '.join(BUILT_IN)}, pkg.module:callable or file.py:callable, got {spec!r}. Name the callable."
        )
    file = Path(where).resolve() if where.endswith(".py") else _module_file(where)
    if not file:
        return SubjectPlan(name=spec, spec=spec)
    if not file.is_file():
        raise InvalidValueError(f"Expected a file for the subject {spec!r}, got {where}, which is not there.")
    source = file.read_bytes()
    _mentioned(source, name.split(".")[0], spec)
    absolute = f"{file}:{name}" if where.endswith(".py") else spec
    return SubjectPlan(
        name=f"{file.name}:{name}" if where.endswith(".py") else spec,
        spec=absolute,
        file=str(file),
        sha256=hashlib.sha256(source).hexdigest(),
        line=_definition(source, name.split(".")),
    )


def find(spec: str) -> Any:
    """Import `pkg.module:name` or `file.py:name` and return what it names; raises what the import raises."""
    where, _, name = spec.rpartition(":")
    module = _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    return functools.reduce(getattr, name.split("."), module)


def adapted(clip: Callable[..., Any]) -> Clip:
    """Call `clip` with as many arguments as it takes.

    A parameter named `ctx` gets the context; so does a third required positional one, or `*args`. Otherwise
    two arguments are passed: torch's own function has a third parameter that means something else.
    """
    try:
        parameters = inspect.signature(clip).parameters
    except ValueError:
        return lambda params, limit, ctx: clip(params, limit)
    ctx = parameters.get("ctx")
    if ctx is not None and ctx.kind is not ctx.POSITIONAL_ONLY:
        return lambda params, limit, ctx: clip(params, limit, ctx=ctx)
    if _takes_three(parameters.values()):
        return clip
    return lambda params, limit, ctx: clip(params, limit)


def _takes_three(parameters: Iterable[inspect.Parameter]) -> bool:
    listed = list(parameters)
    positional = [each for each in listed if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    third = positional[2:3]
    return (
        any(each.kind is each.VAR_POSITIONAL for each in listed)
        or any(each.name == "ctx" for each in third)
        or any(each.default is each.empty for each in third)
    )


def _module_file(module: str) -> Path | None:
    """The source file of a module, found without importing it or its packages; None where it has none."""
    path: list[str] | None = None
    origin: str | None = None
    for depth, part in enumerate(parts := module.split(".")):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: depth + 1]), path)
        if spec is None:
            # Built-in modules and those of import hooks are known to the import system only.
            spec = importlib.util.find_spec(part) if depth == 0 and part.isidentifier() else None
        if spec is None:
            raise InvalidValueError(f"Expected a module that can be found, got {module!r}: no {part!r} on sys.path.")
        path, origin = list(spec.submodule_search_locations or ()), spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None


def _mentioned(source: bytes, name: str, spec: str) -> None:
    if re.search(rb"\b%s\b" % name.encode(), source) is None and b"import *" not in source:
        raise InvalidValueError(f"Expected a callable named {name!r} for the subject {spec!r}: the file has none.")


def _definition(source: bytes, names: Sequence[str]) -> int | None:
    """The line on which the named function, class or method is defined; None where it is made in another way."""
    try:
        body: Sequence[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    line = None
    for name in names:
        found = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
        if not found:
            return None
        line, body = found[-1].lineno, found[-1].body
    return line


def _from_file(path: Path) -> Any:
    name = f"shardproof_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidValueError(f"Expected a Python file, got {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up here
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module
