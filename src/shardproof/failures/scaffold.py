"""A new mechanism's folder, with everything in place but what an author has to write."""

from __future__ import annotations

import re
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.failures.lint import UNFILLED
from shardproof.failures.mechanism import CONTRACTS, load_contract
from shardproof.failures.store import write_record

NAME = r"[a-z0-9]+(-[a-z0-9]+)*"

CONTRACT = """schema = "shardproof.contract/1"
id = "{contract}"
solve = "solve(values)"
text = \"\"\"
{unfilled}: given ..., return ...; how results are rounded; what is refused.
\"\"\"
rounding = "12 decimals"

[arguments]
values = "{unfilled}: what it holds"
"""
MECHANISM = """schema = "shardproof.mechanism/1"
slug = "{slug}"
title = "{unfilled}: one sentence that says what goes wrong."
family = "{family}"
group = "own"
contract = "{contract}"
variants = [1, 2, 3]

root_cause = \"\"\"
{unfilled}: what the program does instead, and why a reader would write it.
\"\"\"
unsuccessful_approach = \"\"\"
{unfilled}: what the other program does about it, and why that fails.
\"\"\"
why_it_matters = \"\"\"
{unfilled}: what a run shows, and what it costs.
\"\"\"
scope = \"\"\"
{unfilled}: what is represented here, and what is not.
\"\"\"

[[references]]
kind = "issue"
url = "https://github.com/{unfilled_url}"
note = "{unfilled}: what the report says, in our words"
"""
PROGRAM = '''"""{unfilled}: {what}."""


def {signature}:
    return {first}
'''
CHECKS = '''"""{unfilled}: what the fixtures have in common."""

from shardproof.failures.exact import scaled


def checks(n):
    # {unfilled}: five to ten checks (label, arguments, expected); expected values are computed exactly.
    return [
        ("first check", ({blanks}), scaled([3 * n], 1, 5)),
    ]
'''


def scaffold(slug: str, family: str, contract: str, *, catalogue: Path, members: Path | None) -> list[Path]:
    """Write the files of a new mechanism; `lint` names each place that has to be filled in.

    Args:
        slug, family: lower case with hyphens; the folder family/slug is made.
        contract: the contract's id; one that is not there yet is made too.
        catalogue: the folder of families.
        members: where the repair goes; None: no repair is made.

    Returns:
        The files that were made.

    Raises:
        InvalidValueError: a name does not fit, or the mechanism is there already.
    """
    for what, name in (("slug", slug), ("family", family), ("contract", contract)):
        if not re.fullmatch(NAME, name) or name == CONTRACTS:
            raise InvalidValueError(f"Expected lower case and hyphens, got {what}={name!r}.")
    if there := [path.parent for path in catalogue.glob(f"*/{slug}/mechanism.toml")]:
        raise InvalidValueError(f"Expected a new slug, got {slug!r}, which is in {there[0]}.")
    files = _contract_file(contract, catalogue)
    signature = load_contract(catalogue / CONTRACTS / contract).says.solve if not files else "solve(values)"
    files |= _mechanism_files(slug, family, contract, signature, catalogue)
    if members is not None:
        files[members / slug / "repair.py"] = _program("one line that says what the repair does", signature)
    for path, text in files.items():
        write_record(path, text)
    return list(files)


def _contract_file(contract: str, catalogue: Path) -> dict[Path, str]:
    path = catalogue / CONTRACTS / contract / "contract.toml"
    return {} if path.exists() else {path: CONTRACT.format(contract=contract, unfilled=UNFILLED)}


def _mechanism_files(slug: str, family: str, contract: str, signature: str, catalogue: Path) -> dict[Path, str]:
    folder = catalogue / family / slug
    blanks = "".join(f"[{index}], " for index, _ in enumerate(_arguments(signature), 1)).strip()
    facts = {"slug": slug, "family": family, "contract": contract, "unfilled": UNFILLED}
    return {
        folder / "mechanism.toml": MECHANISM.format(unfilled_url=UNFILLED.replace(" ", "-"), **facts),
        folder / "failing.py": _program("one line that says what it does, not that it is wrong", signature),
        folder / "unsuccessful.py": _program("one line that says what it tries", signature),
        folder / "checks.py": CHECKS.format(unfilled=UNFILLED, blanks=blanks),
    }


def _program(what: str, signature: str) -> str:
    return PROGRAM.format(unfilled=UNFILLED, what=what, signature=signature, first=_arguments(signature)[0])


def _arguments(signature: str) -> list[str]:
    return re.findall(r"\w+", signature)[1:]
