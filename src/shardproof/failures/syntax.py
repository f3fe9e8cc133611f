"""What can be said of an implementation without running it: its parts, its imports, its syntax tree."""

from __future__ import annotations

import ast
import dataclasses

from shardproof.failures.purity import impurities

RESERVED = frozenset({"json", "N", "observations", "plain", "same", "check"})
"""Names of the rendered program around the implementation."""


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
    return said + cheats(text) + _signature(tree, signature)


def cheats(text: str) -> list[str]:
    """What would let an implementation answer from more than its arguments; `misfits` names it too.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(text)
    used = {(name, getattr(node, "lineno", 1)): None for node in ast.walk(tree) for name in _names(node)}
    reserved = [f"line {line}: {name} is a name of the rendered program" for name, line in used if name in RESERVED]
    return impurities(tree) + reserved


def _misplaced(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef) or _is_docstring(node):
        return []
    if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
        return []
    return [f"line {node.lineno}: code at module level; only imports, constants and functions may be there"]


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.alias):
        return [node.asname or node.name]
    return [node.name or ""] if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) else []


def _signature(tree: ast.Module, signature: str) -> list[str]:
    solves = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "solve"]
    if len(solves) != 1:
        return [f"{len(solves)} functions solve; expected one"]
    given = ast.unparse(solves[0].args)
    arguments = [name.strip() for name in given.split(",")]
    asked = [name.strip() for name in signature.removeprefix("solve(").removesuffix(")").split(",")]
    return [] if arguments == asked else [f"solve({given}); the contract says {signature}"]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
