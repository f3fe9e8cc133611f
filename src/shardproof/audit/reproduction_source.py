"""A subject's source as it can stand in another file: the function, and what it uses of its own file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Inlined:
    """What to put into a file: import lines, then code that defines `name`."""

    imports: tuple[str, ...]
    code: str
    name: str


def inlined(source: str, name: str, folder: Path | None = None) -> Inlined | None:
    """The named function or class and what it uses of its file; None where it cannot be taken out of it.

    Taken out are functions, classes, assigned literals and absolute imports. A name that is made in another way, a
    decorator, or a module that lies beside the file cannot.

    Args:
        source: the file's text.
        name: of a function or class at its top level.
        folder: where the file lies; modules in it are not there elsewhere.

    >>> inlined("import math\\ndef clip(params, limit): return math.inf", "clip")
    Inlined(imports=('import math',), code='def clip(params, limit): return math.inf', name='clip')
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    made: dict[str, ast.stmt] = {each: node for node in tree.body for each in _names(node)}
    wanted, found = [name], dict[str, ast.stmt]()
    while wanted:
        each = wanted.pop()
        if each in found or (each not in made and hasattr(builtins, each)):
            continue
        if each not in made or not _movable(made[each], folder):
            return None
        found[each] = made[each]
        if not isinstance(made[each], ast.Import | ast.ImportFrom):
            wanted += [used for used in _used(made[each]) if used in made or not hasattr(builtins, used)]
    if not isinstance(found[name], ast.FunctionDef | ast.ClassDef):
        return None
    nodes = sorted({id(node): node for node in found.values()}.values(), key=lambda node: node.lineno)
    imports = tuple(ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    code = [node for node in nodes if not isinstance(node, ast.Import | ast.ImportFrom)]
    return Inlined(imports, "\n\n\n".join(_text(source, node) for node in code), name)


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((each.asname or each.name).partition(".")[0] for each in node.names)
    else:
        yield from (
            each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        )


def _movable(node: ast.stmt, folder: Path | None) -> bool:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return not node.decorator_list
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
        relative = isinstance(node, ast.ImportFrom) and node.level > 0
        return not relative and not any(_beside(module.partition(".")[0], folder) for module in modules)
    return isinstance(node, ast.Assign) and len(node.targets) == 1 and _literal(node.value)


def _beside(module: str, folder: Path | None) -> bool:
    return folder is not None and ((folder / f"{module}.py").exists() or (folder / module / "__init__.py").exists())


def _literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def _used(node: ast.stmt) -> set[str]:
    """Names that are read anywhere in it and bound nowhere in it: what it takes from its file, or from builtins."""
    bare = _without_annotations(node)
    names = [each for each in ast.walk(bare) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if not isinstance(each.ctx, ast.Load)}
    bound |= {each.arg for each in ast.walk(bare) if isinstance(each, ast.arg)}
    for each in ast.walk(bare):
        if isinstance(each, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            bound |= set(_names(each))
        elif isinstance(each, ast.ExceptHandler) and each.name:
            bound.add(each.name)
    return {each.id for each in names if isinstance(each.ctx, ast.Load)} - bound - {"__file__", "__name__"} | (
        {each.id for each in names if each.id == "__file__"}
    )


class _Bare(ast.NodeTransformer):
    """Takes the annotations of arguments, results and local names away."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None or not isinstance(node.target, ast.Name):
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _without_annotations(node: ast.stmt) -> ast.stmt:
    copy = ast.parse(ast.unparse(node)).body[0]
    return ast.fix_missing_locations(_Bare().visit(copy))  # type: ignore[no-any-return]


def _text(source: str, node: ast.stmt) -> str:
    """The text as it is written where it has no annotations; else written anew without them."""
    bare = ast.unparse(_without_annotations(node))
    return (ast.get_source_segment(source, node) or bare) if bare == ast.unparse(node) else bare
