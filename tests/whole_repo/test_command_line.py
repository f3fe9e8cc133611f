"""The command line is frozen in command_line.txt: a change to it is made on purpose, and said in changelog.d."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from shardproof.cli.exits import Exit
from shardproof.cli.main import app

ROOT = Path(__file__).parents[2]
FROZEN = Path(__file__).with_name("command_line.txt")


def commands(command: object, name: str) -> Iterator[tuple[str, object]]:
    """Every command below `command` that does something, with its full name."""
    subcommands = getattr(command, "commands", None)
    if not subcommands:
        yield name, command
        return
    for subname, subcommand in sorted(subcommands.items()):
        yield from commands(subcommand, f"{name} {subname}")


def described(name: str, command: object) -> str:
    parameters = command.params  # type: ignore[attr-defined]
    options = sorted(" ".join(p.opts + p.secondary_opts) for p in parameters if p.param_type_name == "option")
    arguments = [p.name.upper() for p in parameters if p.param_type_name == "argument"]
    return " ".join([name, *arguments, *(f"[{option}]" for option in options)])


def command_line() -> list[tuple[str, object]]:
    return list(commands(typer.main.get_command(app), "shardproof"))


def test_the_command_line_is_as_frozen() -> None:
    now = [described(name, command) for name, command in command_line()]
    frozen = FROZEN.read_text(encoding="utf-8").splitlines()
    assert now == frozen, "Change command_line.txt by hand, and say it in changelog.d:\n" + "\n".join(now)


@pytest.mark.parametrize(("name", "command"), command_line(), ids=[name for name, _ in command_line()])
def test_every_command_and_option_has_help(name: str, command: object) -> None:
    assert command.help, name  # type: ignore[attr-defined]
    for parameter in command.params:  # type: ignore[attr-defined]
        assert parameter.help, f"{name} {parameter.name}"


def test_commands_that_documents_name_exist() -> None:
    names = {name for name, _ in command_line()}
    groups = {name.rsplit(" ", 1)[0] for name in names}
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for line in re.findall(r"(?:^|[`|$] ?)(shardproof [a-z][a-z -]*)", path.read_text(encoding="utf-8"), re.M):
            words = re.match(r"[a-z]+(?: [a-z]+(?:-[a-z]+)*)*", line)
            assert words is not None
            named = words[0].split()
            reached = {" ".join(named[:length]) for length in (2, 3)}
            assert reached & (names | groups), f"{path.name}: {line}"


def test_the_exit_codes_are_those_of_the_readme() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"Exit codes: (.+?)\. ", text)
    assert said is not None
    assert [int(part.split()[0]) for part in said[1].split(", ")] == sorted(Exit)
