"""What an implementation or a file of checks may not say, since it would do more than compute from its arguments."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from types import ModuleType

PURE = frozenset(
    {"array", "bisect", "cmath", "collections", "collections.abc", "copy", "dataclasses", "decimal", "enum"}
) | {*("fractions", "functools", "heapq", "itertools", "math", "numbers", "operator", "statistics", "struct", "typing")}
"""Standard library modules that compute and do nothing else."""
OURS = frozenset({"shardproof.failures.clipping", "shardproof.failures.exact", "shardproof.failures.number_formats"})
"""What checks compute expected values with."""
DOING = frozenset(
    {"print", "open", "input", "exec", "eval", "compile", "breakpoint", "exit", "quit", "help", "copyright", "credits"}
) | {"license", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"}
LOOKING = frozenset({"globals", "locals", "vars", "dir", "getattr", "setattr", "delattr", "hash", "id", "memoryview"})
"""Built-ins that see the program around, change it, or differ from run to run."""
# By name, since each takes what it looks at as a text: "{0.gi_frame.f_back.f_locals}".format(generator).
BY_TEXT = frozenset({"attrgetter", "methodcaller", "get_type_hints", "ForwardRef", "format", "format_map"})
INSIDES = re.compile(r"_.*|(gi|cr|ag|tb|f)_(frame|code|back|locals|globals|builtins|next|trace|yieldfrom|await)")
"""Attributes that lead from a value to the interpreter's frames, and from there to the expected values."""


def impurities(tree: ast.Module, allowed: frozenset[str] = PURE) -> list[str]:
    """Name every place that does more than compute: other imports, I/O, the interpreter's insides, code on import.

    Args:
        tree: of an implementation or a file of checks.
        allowed: the modules that may be imported.
    """
    modules = _modules(tree)
    said = [sentence for node in ast.walk(tree) for sentence in _of(node, modules, allowed)]
    return said + [sentence for node in tree.body for sentence in _on_import(node)]


def _of(node: ast.AST, modules: dict[str, str], allowed: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _imported(node, allowed)
    elif isinstance(node, ast.Name) and (node.id in DOING | LOOKING or node.id.startswith("__")):
        yield f"line {node.lineno}: {node.id}; an implementation only computes"
    elif isinstance(node, ast.Attribute):
        yield from _attribute(node, modules)
    elif isinstance(node, ast.Global | ast.Nonlocal | ast.MatchClass):
        what = type(node).__name__.lower().replace("matchclass", "a class pattern")
        yield f"line {node.lineno}: {what}; an implementation keeps nothing and looks into nothing"


def _imported(node: ast.Import | ast.ImportFrom, allowed: frozenset[str]) -> Iterator[str]:
    names = (
        [f"{'.' * node.level}{node.module or ''}"]
        if isinstance(node, ast.ImportFrom)
        else [alias.name for alias in node.names]
    )
    if others := [name for name in names if name not in allowed]:
        yield from (f"line {node.lineno}: imports {one}; allowed: {', '.join(sorted(allowed))}" for one in others)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*" or alias.name in BY_TEXT or not _public(names[0], alias.name):
                yield f"line {node.lineno}: imports {alias.name} from {names[0]}, which is none of its functions"
    if node.col_offset:
        yield f"line {node.lineno}: an import inside a function; imports stand at the top"


def _attribute(node: ast.Attribute, modules: dict[str, str]) -> Iterator[str]:
    if node.attr in BY_TEXT or INSIDES.fullmatch(node.attr):
        yield f"line {node.lineno}: .{node.attr}; an implementation does not look into the interpreter"
    elif not isinstance(node.ctx, ast.Load):
        yield f"line {node.lineno}: .{node.attr} is set; an implementation never changes an attribute"
    elif isinstance(node.value, ast.Name) and not _public(modules.get(node.value.id, ""), node.attr):
        yield f"line {node.lineno}: {node.value.id}.{node.attr} is none of that module's functions"


def _modules(tree: ast.Module) -> dict[str, str]:
    """The names that stand for modules which may be imported."""
    aliases = [alias for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    # `import collections.abc` binds collections.
    named = {alias.asname or alias.name.partition(".")[0]: alias for alias in aliases if alias.name in PURE | OURS}
    return {name: one.name if one.asname else name for name, one in named.items()}


@functools.cache
def _public(module: str, name: str) -> bool:
    """Whether a module has `name` for its users, as it has not statistics.sys, which it imported itself."""
    if not module or f"{module}.{name}" in PURE:
        return True
    loaded = importlib.import_module(module)
    if name not in getattr(loaded, "__all__", dir(loaded)) or name.startswith("_"):
        # A name of a newer Python than this one is told from none by the run, not here.
        return not hasattr(loaded, name) and not name.startswith("_")
    return not isinstance(getattr(loaded, name), ModuleType)


def _on_import(node: ast.stmt) -> Iterator[str]:
    """What runs before solve is asked: decorators, defaults and constants that are calls."""
    if isinstance(node, ast.FunctionDef):
        defaults = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]
        if node.decorator_list or any(isinstance(one, ast.Call) for default in defaults for one in ast.walk(default)):
            yield f"line {node.lineno}: {node.name} has a decorator, or a default that is a call"
    if isinstance(node, ast.Assign):
        calls = [one for one in ast.walk(node.value) if isinstance(one, ast.Call)]
        if any(not isinstance(one.func, ast.Name) or one.func.id not in CONSTANTS for one in calls):
            yield f"line {node.lineno}: a constant that is a call; allowed: {', '.join(sorted(CONSTANTS))}"


CONSTANTS = frozenset({"Fraction", "Decimal", "float", "frozenset", "int", "range", "tuple"})
"""Calls that make a constant."""
