"""Docstrings: each module and public name has one, its arguments are the signature's, its examples run."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "shardproof"
NEEDS = {"shardproof.torch": "torch", "shardproof.audit": "torch", "shardproof.sums.kernels.numba": "numba"}
# Importing this one is running the command line.
NOT_IMPORTED = {"shardproof.__main__"}


def module_names() -> list[str]:
    names = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(SOURCE / "failures" / "catalogue"):
            continue  # programs as the map's pages print them; `map lint` looks after these
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in names if name not in NOT_IMPORTED]


def loaded(name: str) -> ModuleType:
    for prefix, library in NEEDS.items():
        if name.startswith(prefix):
            pytest.importorskip(library, reason=f"{name} needs {library}, which is not installed")
    return importlib.import_module(name)


def public_callables(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """Public functions, and public classes with their public methods, that are defined in `module`."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value) or inspect.isclass(value):
            yield name, value
        if inspect.isclass(value):
            for method_name, member in vars(value).items():
                method = inspect.unwrap(getattr(member, "__func__", member))
                if not method_name.startswith("_") and inspect.isfunction(method):
                    yield f"{name}.{method_name}", method


def documented_arguments(text: str) -> list[str]:
    """The names in an "Args:" section: `name:` or `name, name:` at its first indentation."""
    section = re.search(r"^Args:\n((?: {4}.*\n?|\n)+)", inspect.cleandoc(text), re.MULTILINE)
    if section is None:
        return []
    heads = re.findall(r"^ {4}([\w*]+(?:, [\w*]+)*):", section[1], re.MULTILINE)
    return [name.lstrip("*") for head in heads for name in head.split(", ")]


def signature_arguments(function: Callable[..., object]) -> list[str]:
    names = list(inspect.signature(function).parameters)
    return names[1:] if names and names[0] in ("self", "cls") else names


def test_the_parser_of_argument_sections() -> None:
    text = """One line.

    Args:
        first: what it is,
            with a second line: and a colon.
        second, third: both.

    Returns:
        fourth: no argument.
    """
    assert documented_arguments(text) == ["first", "second", "third"]
    assert documented_arguments("One line.") == []


def test_a_wrong_argument_section_is_seen() -> None:
    def wrong(kept: int, renamed: int) -> None:
        """Do nothing.

        Args:
            kept: an int.
            old_name: an int.
        """

    assert documented_arguments(wrong.__doc__ or "") != signature_arguments(wrong)


@pytest.mark.parametrize("name", module_names())
def test_documentation_of_a_module(name: str) -> None:
    module = loaded(name)
    if (SOURCE.parent / Path(*name.split("."))).with_suffix(".py").exists():
        assert (module.__doc__ or "").strip(), f"{name} has no docstring"
    for where, function in public_callables(module):
        text = inspect.getdoc(function) or ""
        assert text.strip(), f"{name}.{where} has no docstring"
        documented = documented_arguments(text)
        if documented:
            assert sorted(documented) == sorted(signature_arguments(function)), f"{name}.{where}"


@pytest.mark.parametrize("name", ["shardproof", "shardproof.torch", "shardproof.files"])
def test_what_a_front_door_offers_documents_its_arguments(name: str) -> None:
    module = loaded(name)
    for offered_name in module.__all__:
        offered = getattr(module, offered_name)
        if inspect.isfunction(offered) and inspect.signature(offered).parameters:
            assert documented_arguments(offered.__doc__ or "") == signature_arguments(offered), offered_name


@functools.cache
def with_examples() -> list[str]:
    return [name for name in module_names() if ">>>" in source_of(name)]


def source_of(name: str) -> str:
    path = SOURCE.parent / Path(*name.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", with_examples())
def test_examples_of_a_module_run(name: str) -> None:
    found = doctest.testmod(loaded(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
