"""Reading the catalogue: a directory becomes one frozen mechanism, with its contract, programs and checks."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from shardproof.errors import InvalidValueError
from shardproof.records.map import ContractFile, MechanismFile

CATALOGUE = Path(__file__).with_name("catalogue")
CONTRACTS = "contracts"
MEMBERS_PACKAGE = "shardproof_members"

Model = TypeVar("Model", bound=BaseModel)


@dataclasses.dataclass(frozen=True)
class Contract:
    """A contract: what its file says, and the lowering beside it, where it has one."""

    folder: Path
    says: ContractFile

    @property
    def lowering(self) -> Path | None:
        """The file with `readings` and `predicted`; None where the audit cannot express the contract."""
        path = self.folder / "lowering.py"
        return path if path.is_file() else None


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """A mechanism: what its file says, its contract, and the folder with its programs and checks."""

    folder: Path
    says: MechanismFile
    contract: Contract

    @property
    def slug(self) -> str:
        """The mechanism's stable name."""
        return self.says.slug


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of a variant: solve(*arguments) must be `expected`, or raise where it is {"raises": name}."""

    label: str
    arguments: tuple[object, ...]
    expected: object


@dataclasses.dataclass(frozen=True)
class Member:
    """What is held back of a mechanism: the repair, and checks on other fixtures where there are some."""

    repair: Path
    held_back: Path | None


def load_mechanism(folder: Path) -> Mechanism:
    """Read the directory of one mechanism; its contract lies in the catalogue that the folder is in.

    Raises:
        InvalidValueError: a file is missing or does not fit its schema; the message names file and field.
    """
    says = read_toml(folder / "mechanism.toml", MechanismFile)
    contract = load_contract(folder.parents[1] / CONTRACTS / says.contract)
    return Mechanism(folder, says, contract)


def load_contract(folder: Path) -> Contract:
    """Read the directory of one contract.

    Raises:
        InvalidValueError: contract.toml is missing or does not fit its schema.
    """
    return Contract(folder, read_toml(folder / "contract.toml", ContractFile))


def mechanism_folders(catalogue: Path = CATALOGUE) -> list[Path]:
    """The folders of all mechanisms, by family and slug; contracts are none."""
    files = sorted(catalogue.glob("*/*/mechanism.toml"))
    return [path.parent for path in files if path.parents[1].name != CONTRACTS]


def load_catalogue(catalogue: Path = CATALOGUE) -> list[Mechanism]:
    """Read all mechanisms, by family and slug.

    Raises:
        InvalidValueError: one of them cannot be read, or a slug is there twice.
    """
    mechanisms = [load_mechanism(folder) for folder in mechanism_folders(catalogue)]
    slugs = [mechanism.slug for mechanism in mechanisms]
    if twice := sorted({slug for slug in slugs if slugs.count(slug) > 1}):
        raise InvalidValueError(f"Expected each slug once, got slug={twice[0]!r} in more than one folder.")
    return mechanisms


def read_toml(path: Path, model: type[Model]) -> Model:
    """Read a TOML file into a closed model.

    Raises:
        InvalidValueError: the file cannot be read, is no TOML, or a field does not fit; all of them are named.
    """
    try:
        return model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InvalidValueError(f"Expected a readable {path.name}, got {path}: {error.strerror}.") from None
    except ValidationError as error:
        said = [f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors(include_url=False)]
        raise InvalidValueError(f"Expected {path.name} as its schema has it, got {path}: {'; '.join(said)}.") from None
    except ValueError as error:
        raise InvalidValueError(f"Expected TOML in UTF-8, got {path}: {error}.") from None


def function_of(path: Path, name: str) -> Callable[..., Any]:
    """Run one of our own files in this process and return the function that it defines.

    Raises:
        InvalidValueError: the file cannot be read or run, or does not define the function.
    """
    try:
        space: dict[str, Any] = {"__name__": f"catalogue {path.parent.name}/{path.stem}", "__file__": str(path)}
        exec(compile(path.read_bytes(), str(path), "exec"), space)
    except (Exception, SystemExit) as error:
        # SystemExit too: a file of checks that says exit(0) must not become the verdict "held".
        raise InvalidValueError(f"Expected Python that runs, got {path}: {type(error).__name__}: {error}.") from error
    if not callable(space.get(name)):
        raise InvalidValueError(f"Expected a function {name}, got {path} without it.")
    function: Callable[..., Any] = space[name]
    return function


def checks_of(path: Path, n: int) -> tuple[Check, ...]:
    """Return the checks of variant `n` from a checks.py or held_back.py.

    Raises:
        InvalidValueError: checks(n) raises, or returns anything but (label, arguments, expected) triples.
    """
    return checks_from(function_of(path, "checks"), n, path)


def checks_from(checks: Callable[[int], Iterable[object]], n: int, path: Path) -> tuple[Check, ...]:
    """The same from a function that was loaded from `path` before.

    Raises:
        InvalidValueError: as in checks_of.
    """
    try:
        return tuple(_check(entry) for entry in checks(n))
    except InvalidValueError as error:
        raise InvalidValueError(f"{error} In checks({n}) of {path}.") from error
    except (Exception, SystemExit) as error:
        raise InvalidValueError(
            f"Expected checks({n}) to return a list, got {type(error).__name__}: {error} in {path}."
        ) from error


def _check(entry: object) -> Check:
    if not isinstance(entry, tuple | list) or len(entry) != 3:
        raise InvalidValueError(f"Expected (label, arguments, expected), got {entry!r:.120}.")
    label, arguments, expected = entry
    if not isinstance(label, str) or not isinstance(arguments, tuple):
        raise InvalidValueError(f"Expected a label and a tuple of arguments, got {label!r:.60}, {arguments!r:.60}.")
    return Check(label, arguments, expected)


def member_of(slug: str, members: Path | None) -> Member | None:
    """What `members` holds of a mechanism; None where it holds no repair of it."""
    if members is None or not (repair := members / slug / "repair.py").is_file():
        return None
    held_back = members / slug / "held_back.py"
    return Member(repair, held_back if held_back.is_file() else None)


@functools.cache
def members_folder() -> Path | None:
    """Where repairs lie: the installed member distribution, or the checkout's folder; None: they are held back."""
    spec = importlib.util.find_spec(MEMBERS_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    checkout = Path(__file__).parents[3]
    return checkout / "members" if (checkout / "members" / "pyproject.toml").is_file() else None


def folders_named(names: Iterable[str | Path], catalogue: Path = CATALOGUE) -> list[Path]:
    """The mechanisms' folders that are named by slug, family or path; all of the catalogue where nothing is named.

    Only names of folders are looked at, so that a mechanism that cannot be read does not keep others from being read.

    Raises:
        InvalidValueError: a name is none of these.
    """
    names, everything = list(names), mechanism_folders(catalogue)
    chosen = [folder for name in names for folder in _named(str(name), everything)]
    return list(dict.fromkeys(chosen)) if names else everything


def _named(name: str, everything: list[Path]) -> list[Path]:
    found = [folder for folder in everything if name in (folder.name, folder.parent.name)]
    path = Path(name)
    if not found and (path / "mechanism.toml").is_file():
        found = [path.resolve()]
    if not found and path.is_dir():
        found = mechanism_folders(path.resolve()) or [file.parent for file in sorted(path.glob("*/mechanism.toml"))]
    if not found:
        raise InvalidValueError(f"Expected a slug, a family or a folder of the catalogue, got {name!r}.")
    return found
