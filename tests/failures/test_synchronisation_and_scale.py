"""The wrong numbers of public reports about replica synchronisation and scale come out of our wrong programs."""

from itertools import combinations, product

import pytest
from tests.failures.reported import NOTHING, REPORTS

from shardproof.failures.mechanism import (
    checks_of,
    folders_named,
    function_of,
    load_mechanism,
    member_of,
    members_folder,
)
from shardproof.failures.roles import observe, sources, try_variant
from shardproof.failures.values import plain, same

FAMILIES = ("replica-synchronisation", "data-parallel-scale")
MECHANISMS = {folder.name: load_mechanism(folder) for folder in folders_named(FAMILIES)}
WRONG = [(slug, role) for slug in sorted(MECHANISMS) for role in ("failing", "unsuccessful")]


@pytest.mark.parametrize(
    ("slug", "report", "run", "says", "right", "failing", "unsuccessful"),
    REPORTS,
    ids=[f"{row[0]}-{row[1]}" for row in REPORTS],
)
def test_a_report_s_numbers_come_out(slug, report, run, says, right, failing, unsuccessful):
    programs = sources(MECHANISMS[slug], member_of(slug, members_folder()))
    stated = {"repair": right, "failing": failing, "unsuccessful": unsuccessful}
    shown = {role: stated[role] for role in programs if stated[role] is not NOTHING}
    assert shown, report
    for role, numbers in shown.items():
        assert same(plain(says(function_of(programs[role], "solve")(run))), plain(numbers)), (report, role)
    for role in shown.keys() - {"repair"}:
        assert not same(plain(shown[role]), plain(right)), "a wrong number that equals the right one shows nothing"


def test_every_mechanism_has_a_report_with_its_own_reference():
    for slug, mechanism in MECHANISMS.items():
        reported = {report for name, report, *_ in REPORTS if name == slug}
        referenced = {reference.url.removeprefix("https://github.com/") for reference in mechanism.says.references}
        assert reported == referenced, slug


@pytest.mark.parametrize("slug", sorted(MECHANISMS))
def test_roles_hold_on_variants_of_other_shape(slug):
    for n in (1, 2, 3, 4, 97, 1000):
        assert try_variant(MECHANISMS[slug], n, member_of(slug, members_folder())) == []


@pytest.mark.parametrize("slug", sorted(MECHANISMS))
def test_a_repair_holds_for_all_mechanisms_of_its_contract(slug):
    member = member_of(slug, members_folder())
    if member is None:
        pytest.skip("the repairs are held back: no member distribution here")
    solve = function_of(member.repair, "solve")
    others = [other for other in MECHANISMS.values() if other.says.contract == MECHANISMS[slug].says.contract]
    for other, n in product(others, (1, 2, 3, 8)):
        held_back = member_of(other.slug, members_folder()).held_back
        for checks in (other.folder / "checks.py", held_back):
            assert all(row.passed for row in observe(solve, checks_of(checks, n))), (other.slug, n)


def test_wrong_programs_of_one_contract_are_told_apart_by_its_checks():
    """Every two wrong programs that share a contract differ on one of its mechanisms' checks."""
    alike = set()
    for one, other in combinations(WRONG, 2):
        if MECHANISMS[one[0]].says.contract != MECHANISMS[other[0]].says.contract:
            continue
        sharing = [m for m in MECHANISMS.values() if m.says.contract == MECHANISMS[one[0]].says.contract]
        checks = [check for m in sharing for check in checks_of(m.folder / "checks.py", 1)]
        seen = [
            observe(function_of(MECHANISMS[slug].folder / f"{role}.py", "solve"), checks) for slug, role in (one, other)
        ]
        if all(same(a.actual, b.actual) for a, b in zip(*seen, strict=True)):
            alike.add((one, other))
    assert alike == set()
