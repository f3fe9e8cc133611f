"""Python cut into fragments that renaming and reformatting leave the same: for equal programs, and for leaks."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator, Sequence

KEPT = frozenset(dir(builtins)) | frozenset(keyword.kwlist)
"""Names that a smuggler cannot choose; every other name that is not an attribute is one of the author's."""
TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<text>(?:[rbfuRBFU]{0,2})(?:"{3}.*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<number>\d[\w.]*|\.\d[\w.]*)|(?P<name>\.?[A-Za-z_]\w*)|(?P<other>\*\*=?|//=?|[-+*/%&|^<>=!:]=|->|<<|>>|\S)""",
    re.S,
)
LONG = 60
"""Characters of a text whose own tokens are taken."""
# Parentheses and commas may be added or left out where a program stays the same; line ends too.
DROPPED = frozenset("(),;\\")


def tokens(text: str) -> list[str]:
    """The tokens of Python, or of anything that holds some: no comments, parentheses, commas or line ends.

    >>> tokens("total = (a + b.real)  # both")
    ['total', '=', 'a', '+', 'b', '.real']
    """
    found = []
    for match in TOKEN.finditer(text):
        kind, token = match.lastgroup, match[0]
        if kind == "comment" or token in DROPPED:
            continue
        if kind == "text" and (len(token) > LONG or "\n" in token):
            # A program may stand in a text; and in prose two apostrophes far apart are no text at all.
            found += tokens(token.lstrip("rbfuRBFU").strip("\"'"))
            continue
        if kind == "text":
            prefix, inside = token[: token.index(token[-1])].lower(), token.lstrip("rbfuRBFU").strip("\"'")
            if "f" in prefix:
                found += _of_fstring(inside)
                continue
            token = f"'{inside}'"
        elif kind == "number":
            token = _number(token)
        found.append(token)
    return found


def canonical(words: Sequence[str]) -> tuple[str, ...]:
    """The same tokens with the author's names numbered in order of appearance.

    >>> canonical(["total", "=", "total", "+", "part"])
    ('$0', '=', '$0', '+', '$1')
    """
    names: dict[str, str] = {}
    return tuple(names.setdefault(word, f"${len(names)}") if is_chosen(word) else word for word in words)


def is_chosen(word: str) -> bool:
    """Return whether a token is a name that the author chose: no keyword, built-in, attribute, number or text."""
    return (word[0].isalpha() or word[0] == "_") and word not in KEPT


def fragments(text: str) -> dict[tuple[str, ...], str]:
    """The canonical tokens of each statement, with the source of the first such statement; functions are statements.

    Raises:
        SyntaxError: it is no Python.
    """
    found: dict[tuple[str, ...], str] = {}
    for node in _statements(bare(text)):
        source = ast.unparse(node)
        found.setdefault(canonical(tokens(source)), source)
    return found


def program_key(text: str) -> tuple[str, ...]:
    """The canonical tokens of a whole program; equal for programs that differ by names, layout and docstrings.

    Raises:
        SyntaxError: it is no Python.
    """
    return canonical(tokens(ast.unparse(bare(text))))


def bare(text: str) -> ast.Module:
    """The syntax tree without docstrings and annotations.

    Raises:
        SyntaxError: it is no Python.
    """
    tree: ast.Module = _Bare().visit(ast.parse(text))
    return ast.fix_missing_locations(tree)


class _Bare(ast.NodeTransformer):
    """Takes off what a program runs the same without."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        return None if node.value is None else ast.Assign(targets=[node.target], value=node.value)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        self.generic_visit(node)
        return None if isinstance(node.value, ast.Constant) else node

    def visit_Pass(self, node: ast.Pass) -> None:
        return None


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def _of_fstring(inside: str) -> list[str]:
    """The words around the fields as texts, and the tokens of the fields, whose names can be chosen too."""
    parts = [part for part in re.split(r"(\{[^{}]*\})", inside) if part]
    return [word for part in parts for word in (tokens(part) if part[0] == "{" else [f"'{part}'"])]


def _number(token: str) -> str:
    try:
        return repr(ast.literal_eval(token))
    except (ValueError, SyntaxError):
        return token
