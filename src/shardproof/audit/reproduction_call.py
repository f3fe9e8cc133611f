"""How a reproduction calls the subject: its code in the file, and of the context only what that code reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from shardproof.audit.reproduction_source import Inlined, inlined
from shardproof.audit.subjects import BUILT_IN
from shardproof.errors import InvalidValueError
from shardproof.records.audit import LayoutPlan, SubjectPlan

FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "model": "model",
        "rank": "rank",
        "world_size": "WORLD",
        "layout": "LAYOUT",
        "mesh": "mesh",
        "axes": "AXES",
        "names": "tuple(row[0] for row in RANKS[rank])",
        "placements": "PLACEMENTS[rank]",
        "tied": "TIED",
        "owned": "OWNED[rank]",
        "limit": "LIMIT",
        "norm_type": "NORM_TYPE",
        "groups": "{axis: mesh.get_group(axis) for axis in AXES}",
        "group": "mesh.get_group",
        "params": "tuple(params)",
    }
)
"""The attributes of a context, as the file has them."""
MESHED: Final = frozenset({"mesh", "groups", "group"})
CLIP: Final = "clip"


@dataclass(frozen=True)
class Calling:
    """What stands in the file.

    Attributes:
        imports: lines that the code needs.
        code: the subject's source; "" where the file imports it.
        making: lines before the call.
        call: the expression that calls it.
        reads: the attributes of the context that are made.
        libraries: whether it calls more than torch, which may look at the environment of a launcher.
    """

    imports: tuple[str, ...]
    code: str
    making: tuple[str, ...]
    call: str
    reads: frozenset[str]
    libraries: bool


def calling(subject: SubjectPlan, planned: LayoutPlan, norm_type: float) -> Calling:
    """The subject's code where it can stand in the file; else lines that import it and ask what it takes."""
    found = _code(subject, norm_type)
    if found is None:
        return imported(subject, planned)
    node = next(each for each in ast.parse(found.code).body if getattr(each, "name", "") == found.name)
    body = node.body if isinstance(node, ast.ClassDef) else []
    methods = {each.name: each for each in body if isinstance(each, ast.FunctionDef)}
    takes = _takes(methods.get(CLIP) if methods else node, skip=bool(methods))
    making, call = list[str](), found.name
    if methods:
        builds = [f"engine.build({'ctx' if len(methods['build'].args.args) > 1 else ''})"] if "build" in methods else []
        making, call = [f"engine = {found.name}()", *builds], "engine.clip"
    told = bool(takes) or "engine.build(ctx)" in making
    reads = _read(found.code) if told else frozenset[str]()
    making = [*(_context(reads, planned) if told else []), *making]
    libraries = subject.spec in BUILT_IN and len(BUILT_IN[subject.spec].needs) > 1
    return Calling(found.imports, found.code, tuple(making), f"{call}(params, LIMIT{takes})", reads, libraries)


def imported(subject: SubjectPlan, planned: LayoutPlan) -> Calling:
    """Lines that import the subject, and ask it what it takes."""
    where, _, name = subject.spec.rpartition(":")
    file = where.endswith(".py")
    found = f"SimpleNamespace(**runpy.run_{'path' if file else 'module'}({where!r}))"
    making = [
        *([f"sys.path.insert(0, {str(Path(where).parent)!r})"] if file else []),
        *_context(frozenset(FIELDS), planned),
        f"found = operator.attrgetter({name!r})({found})",
        "found = found() if inspect.isclass(found) else found",
        'if hasattr(found, "build"):',
        "    found.build(ctx)",
        'call = getattr(found, "clip", found)',
        "takes = inspect.signature(call).parameters",
        'named = {"ctx": ctx} if "ctx" in takes else {}',
        "third = () if named or sum(each.default is each.empty for each in takes.values()) == 2 else (ctx,)",
    ]
    imports = ("import inspect", "import operator", "import runpy")
    return Calling(imports, "", tuple(making), "call(params, LIMIT, *third, **named)", frozenset(FIELDS), True)


def _takes(node: ast.AST | None, *, skip: bool) -> str:
    """What follows the limit in the call: the context, by name where it has one, or nothing."""
    assert isinstance(node, ast.FunctionDef), "what is taken out of a file is a function, or a class with a clip"
    given = node.args
    positional = [*given.posonlyargs, *given.args][int(skip) :]
    if any(each.arg == "ctx" for each in [*given.args, *given.kwonlyargs]):
        return ", ctx=ctx"
    return ", ctx" if given.vararg or len(positional) - len(given.defaults) > 2 else ""


def _read(code: str) -> frozenset[str]:
    """The attributes of a context that the code may read; all where it may ask for them by name."""
    tree = ast.parse(code)
    names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    if names & {"getattr", "hasattr", "vars", "replace", "asdict"}:
        return frozenset(FIELDS)
    return frozenset(each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)) & FIELDS.keys()


def _context(reads: frozenset[str], planned: LayoutPlan) -> list[str]:
    """Lines that make the context; without a mesh there are no groups."""
    left = reads if planned.axes else reads - {"group"}
    made = [f"{name}={value}" for name, value in FIELDS.items() if name in left]
    lines, line = list[str](), "ctx = SimpleNamespace("
    for each in made:
        if len(line) + len(each) > 105:
            lines.append(line.rstrip())
            line = "    "
        line += f"{each}, "
    return [*lines, line.removesuffix(", ") + ")"]


def _code(subject: SubjectPlan, norm_type: float) -> Inlined | None:
    """The subject's source where it can stand in the file; None where the file imports it."""
    if subject.spec in BUILT_IN:
        from shardproof.audit.subjects import find

        where, _, name = BUILT_IN[subject.spec].clip.rpartition(":")
        file = Path(find.__code__.co_filename).with_name(f"{where.rpartition('.')[2]}.py")
        found = inlined(file.read_text(encoding="utf-8"), name)
        return _as_clip(found, norm_type) if found is not None else None
    where, _, name = subject.spec.rpartition(":")
    if subject.file is None:
        return None
    path = Path(subject.file)
    try:
        return inlined(path.read_text(encoding="utf-8"), name, path.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"Expected the subject's file, got {path}: {error}.") from error


def _as_clip(found: Inlined, norm_type: float) -> Inlined:
    """A built-in subject under names that the file has free, and the order of the norm said as the file needs it."""
    code = re.sub(rf"^(def|class) {found.name}\b", rf"\1 {CLIP}", found.code, flags=re.MULTILINE)
    code = re.sub(r"\bpytorch\.", "torch.", code)
    said = "" if norm_type == 2 else f", norm_type=float({str(norm_type)!r})"
    code = code.replace(", norm_type=ctx.norm_type", said)
    if "ctx." not in code:
        code = code.replace(", ctx)", ")")
    imports = tuple(line for line in found.imports if line != "import torch as pytorch")
    return Inlined(imports, code, CLIP)
