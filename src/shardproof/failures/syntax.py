"""What can be said of an implementation without running it: its parts, its imports, its syntax tree."""

from __future__ import annotations

import ast
import dataclasses

PURE = frozenset(
    {"array", "bisect", "cmath", "collections", "collections.abc", "copy", "dataclasses", "decimal", "enum"}
) | {*("fractions", "functools", "heapq", "itertools", "math", "numbers", "operator", "statistics", "struct", "typing")}
"""Standard library modules that compute and do nothing else."""
RESERVED = frozenset({"json", "N", "observations", "plain", "same", "check"})
"""Names of the rendered program around the implementation."""
DOING = frozenset({"print", "open", "input", "exec", "eval", "compile", "__import__", "breakpoint", "exit", "quit"})


@dataclasses.dataclass(frozen=True)
class Parts:
    """An implementation cut for the rendered program: its imports and the rest, as written."""

    imports: tuple[str, ...]
    body: str


def parts_of(text: str) -> Parts:
    """Cut an implementation into its import statements and the rest; the module docstring is left out.

    Raises:
        SyntaxError: it is no Python.
    """
    tree, lines = ast.parse(text), text.split("\n")
    imports: list[str] = []
    left_out: set[int] = set()
    for node in tree.body:
        span = range(node.lineno - 1, (node.end_lineno or node.lineno))
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append("\n".join(lines[index] for index in span))
            left_out.update(span)
        elif node is tree.body[0] and _is_docstring(node):
            left_out.update(span)
    body = "\n".join(line.rstrip() for index, line in enumerate(lines) if index not in left_out)
    return Parts(tuple(imports), body.strip("\n"))


def shape_of(text: str) -> str:
    """The syntax tree as one text, without docstrings and positions; equal for equal programs, on one Python."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def misfits(text: str, signature: str) -> list[str]:
    """What keeps an implementation from being rendered: code at module level, other imports, I/O, reserved names.

    Args:
        text: the source of failing.py, unsuccessful.py or repair.py.
        signature: the contract's, as in `solve(shards, limit)`.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [f"line {error.lineno}: no Python: {error.msg}"]
    said = [] if ast.get_docstring(tree) else ["no module docstring"]
    for node in tree.body:
        said += _misplaced(node)
    for inner in ast.walk(tree):
        said += _doing(inner)
    return said + _signature(tree, signature)


def _misplaced(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [node.module or "."] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        others = [name for name in names if name not in PURE]
        return [f"line {node.lineno}: imports {name}; allowed: {', '.join(sorted(PURE))}" for name in others]
    if isinstance(node, ast.FunctionDef):
        return _reserved([node.name], node.lineno)
    if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
        return _reserved([target.id for target in node.targets if isinstance(target, ast.Name)], node.lineno)
    if isinstance(node, ast.Expr) and _is_docstring(node):
        return []
    return [f"line {node.lineno}: code at module level; only imports, constants and functions may be there"]


def _reserved(names: list[str], line: int) -> list[str]:
    return [f"line {line}: {name} is a name of the rendered program" for name in names if name in RESERVED]


def _doing(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and node.id in DOING:
        return [f"line {node.lineno}: {node.id}; an implementation only computes"]
    if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset:
        return [f"line {node.lineno}: an import inside a function; imports stand at the top"]
    return []


def _signature(tree: ast.Module, signature: str) -> list[str]:
    solves = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "solve"]
    if len(solves) != 1:
        return [f"{len(solves)} functions solve; expected one"]
    arguments = [argument.arg for argument in solves[0].args.args]
    asked = [name.strip() for name in signature.removeprefix("solve(").removesuffix(")").split(",")]
    return [] if arguments == asked else [f"solve({', '.join(arguments)}); the contract says {signature}"]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
