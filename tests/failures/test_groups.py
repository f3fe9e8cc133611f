"""Evaluation groups: what joins mechanisms, that nothing else does, and what the record does not give away."""

from __future__ import annotations

import ast
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.failures.catalogues import FAMILY, SLUG, copy_catalogue, edit

from shardproof.failures.cases import read_registry
from shardproof.failures.fragments import canonical, fragments, program_key, tokens
from shardproof.failures.groups import BLOCKS, Unit, component_id, components, groups_of, units
from shardproof.failures.mechanism import load_catalogue, members_folder
from shardproof.failures.store import record_text

needs_members = pytest.mark.skipif(members_folder() is None, reason="repairs are held back: no members/ here")


@pytest.fixture
def two(tmp_path):
    """A catalogue of two mechanisms that share nothing: another group, contract, report, other programs."""
    catalogue, members = copy_catalogue(tmp_path)
    other = catalogue / "ordering" / "other-one"
    shutil.copytree(catalogue / FAMILY / SLUG, other)
    shutil.copytree(catalogue / "contracts" / "clip-shards", catalogue / "contracts" / "other-contract")
    edit(catalogue / "contracts" / "other-contract" / "contract.toml", 'id = "clip-shards"', 'id = "other-contract"')
    text = (other / "mechanism.toml").read_text()
    text = text.replace(f'slug = "{SLUG}"', 'slug = "other-one"').replace(f'"{FAMILY}"', '"ordering"')
    text = text.replace('group = "own"', 'group = "order"').replace('"clip-shards"', '"other-contract"')
    (other / "mechanism.toml").write_text(text.replace("https://github.com/", "https://github.com/other-"))
    for role in ("failing", "unsuccessful"):
        (other / f"{role}.py").write_text(f'"""{role}."""\n\n\ndef solve(shards, limit):\n    return "{role}", limit\n')
    (members / "other-one").mkdir()
    (members / "other-one" / "repair.py").write_text('"""."""\n\n\ndef solve(shards, limit):\n    return limit\n')
    return catalogue, members


def joined(two, level="group"):
    return [component_id(one) for one in components(units(load_catalogue(two[0]), two[1], level))]


def test_mechanisms_that_share_nothing_stay_apart(two):
    assert joined(two) == ["own", "order"]


def test_each_link_joins(two):
    """Group, contract, report, a renamed program, a repair, a wrong program that is another's repair."""
    catalogue, members = two
    file = catalogue / "ordering" / "other-one" / "mechanism.toml"
    seed = catalogue / FAMILY / SLUG
    reference = load_catalogue(catalogue)[0].says.references[0].url
    for before, after in (
        ('group = "order"', 'group = "own"'),
        ('"other-contract"', '"clip-shards"'),
        ("https://github.com/other-" + reference.removeprefix("https://github.com/"), reference.upper().lower() + "/"),
    ):
        text = file.read_text()
        edit(file, before, after)
        assert len(joined(two)) == 1, after
        file.write_text(text)
    for target, source in (
        (catalogue / "ordering" / "other-one" / "failing.py", seed / "unsuccessful.py"),
        (catalogue / "ordering" / "other-one" / "unsuccessful.py", members / SLUG / "repair.py"),
        (members / "other-one" / "repair.py", members / SLUG / "repair.py"),
    ):
        if not source.exists():
            continue
        text = target.read_text()
        target.write_text(source.read_text().replace("shard", "piece").replace("value", "entry").replace("norm", "n"))
        assert len(joined(two)) == 1, source
        target.write_text(text)
    assert len(joined(two)) == 2


def test_blocks_cover_every_group_once():
    declared = {mechanism.says.group for mechanism in load_catalogue()}
    covered = [group for groups in BLOCKS.values() for group in groups]
    assert sorted(covered) == sorted(set(covered))
    assert declared <= set(covered)


def test_the_catalogue_has_nine_groups_and_three_blocks():
    mechanisms, entries = load_catalogue(), read_registry()
    record = groups_of(mechanisms, entries, members_folder())
    assert {group.id for group in record.groups} == {group for groups in BLOCKS.values() for group in groups}
    assert sum(len(group.mechanisms) for group in record.groups) == len(mechanisms)
    active = [entry.id for entry in entries if entry.state != "withdrawn"]
    assert sorted(case for group in record.groups for case in group.cases) == active
    assert len(groups_of(mechanisms, entries, None, "block").groups) == 3


@needs_members
def test_the_record_holds_no_digest_of_a_repair(two):
    catalogue, members = two
    shutil.copy(members / SLUG / "repair.py", members / "other-one" / "repair.py")
    text = record_text(groups_of(load_catalogue(catalogue), (), members))
    assert '"kind": "repair"' in text
    keys = {key for unit in units(load_catalogue(catalogue), members) for kind, key in unit.links if kind == "repair"}
    assert keys
    assert not any(key in text for key in keys)


@settings(deadline=None)
@given(st.lists(st.frozensets(st.integers(0, 12), max_size=3), max_size=12))
def test_components_are_those_of_a_slow_search(links):
    found = [
        Unit(f"m{index:02}", "own", frozenset(("contract", str(key)) for key in keys))
        for index, keys in enumerate(links)
    ]
    slow = [{unit} for unit in found]
    for _ in found:
        for unit in found:
            touching = [one for one in slow if unit in one or any(unit.links & other.links for other in one)]
            slow = [one for one in slow if one not in touching] + [set().union(*touching)]
    assert {frozenset(one) for one in components(found)} == {frozenset(one) for one in slow}


def test_program_keys_see_through_names_layout_types_and_docstrings():
    plain = "def solve(a, b):\n    total = a + b\n    return [total]\n"
    dressed = '''"""Doc."""
def solve(left: int, right: int) -> list[int]:
    """Doc."""
    s: int = (left
        + right)  # a comment
    return [s,]
'''
    assert program_key(plain) == program_key(dressed)
    assert program_key(plain) != program_key(plain.replace("a + b", "a - b"))
    assert program_key(plain) != program_key(plain.replace("a + b", "a + a"))


def test_fragments_are_the_statements():
    text = "def f(x):\n    for y in x:\n        return y * 2\n"
    assert len(fragments(text)) == 3
    assert canonical(tokens("return (item*2)")) in fragments(text)
    with pytest.raises(SyntaxError):
        fragments("def f(")
    assert ast.parse(fragments(text)[canonical(tokens("return y * 2"))])
