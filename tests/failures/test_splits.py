"""Splits: whole groups, seeds, fractions; continuing an older split; other people's splits that leak."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.errors import InvalidValueError
from shardproof.failures.cases import read_registry
from shardproof.failures.groups import Unit, units
from shardproof.failures.mechanism import load_catalogue, members_folder
from shardproof.failures.split_check import check_split
from shardproof.failures.splits import SplitError, make_split, read_split, write_split
from shardproof.records.map import CaseEntry
from shardproof.records.map_share import Split

DIGEST = "ab" * 32


def unit(slug, group, *links):
    return Unit(slug, group, frozenset({("group", group), *(("report", link) for link in links)}))


def registry(*slugs, cases=3):
    pairs = [(slug, n) for slug in slugs for n in range(1, cases + 1)]
    return tuple(
        CaseEntry(id=f"SP-{number:05}", mechanism=slug, variant=n, seal="0" * 16)
        for number, (slug, n) in enumerate(pairs, 1)
    )


def split_of(units, entries, **changes):
    chosen = {"seed": 1, "fraction": 0.4, "level": "group", "digest": DIGEST} | changes
    return make_split(units, entries, **chosen)


FOUR = [unit("a-one", "own"), unit("a-two", "own"), unit("b-one", "sync"), unit("c-one", "order")]
ENTRIES = registry("a-one", "a-two", "b-one", "c-one")


def test_a_split_of_ours_holds_and_is_read_again(tmp_path):
    made = split_of(FOUR, ENTRIES)
    assert made.fraction_met == len(made.test) / 12
    assert check_split(made, FOUR, ENTRIES, DIGEST).verdict == "held"
    write_split(tmp_path / "split.json", made)
    assert read_split(tmp_path / "split.json") == made
    assert split_of(FOUR, ENTRIES) == made
    assert len({split_of(FOUR, ENTRIES, seed=seed).test for seed in range(20)}) > 1


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["own", "sync", "order", "scale", "weight"]), min_size=2, max_size=12),
    st.integers(),
    st.floats(0.01, 0.99),
)
def test_every_split_holds(groups, seed, fraction):
    """Whole groups, no side empty, nothing missing: for any groups, seed and fraction; or an error for one group."""
    found = [unit(f"m-{index}", group) for index, group in enumerate(groups)]
    entries = registry(*(one.slug for one in found), cases=2)
    if len(set(groups)) == 1:
        with pytest.raises(SplitError):
            split_of(found, entries, seed=seed, fraction=fraction)
        return
    made = split_of(found, entries, seed=seed, fraction=fraction)
    assert check_split(made, found, entries, DIGEST).verdict == "held"
    # The order of mechanisms is nobody's choice.
    assert split_of(found[::-1], entries, seed=seed, fraction=fraction) == made


def test_the_real_catalogue_at_both_levels():
    mechanisms, entries = load_catalogue(), read_registry()
    for level in ("group", "block"):
        found = units(mechanisms, members_folder(), level)
        made = split_of(found, entries, level=level)
        assert check_split(made, found, entries, DIGEST, level=level).verdict == "held"
        assert sorted(made.train + made.test) == [one.id for one in entries if one.state != "withdrawn"]


def stranger(tmp_path, **lists):
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(lists))
    return read_split(path)


def test_a_strangers_random_split_leaks(tmp_path):
    """Every second case in test: each mechanism is on both sides."""
    ids = [entry.id for entry in ENTRIES]
    record = check_split(stranger(tmp_path, train=ids[::2], test=ids[1::2]), FOUR, ENTRIES, DIGEST)
    assert record.verdict == "violated"
    assert len(record.straddling) == 3
    assert record.digest_agrees is None


def test_a_split_by_mechanism_leaks_through_the_group(tmp_path):
    """No mechanism is parted, but two of one group are."""
    test = [entry.id for entry in ENTRIES if entry.mechanism == "a-two"]
    train = [entry.id for entry in ENTRIES if entry.mechanism != "a-two"]
    record = check_split(stranger(tmp_path, train=train, test=test), FOUR, ENTRIES, DIGEST)
    assert record.straddling == ("own: a-two in test; a-one, b-one in train".replace(", b-one", ""),)
    assert not record.problems


def test_a_bridge_that_is_left_out_still_joins(tmp_path):
    """A stranger drops the cases that link two groups: they are missing, and the groups are parted."""
    bridge = unit("d-bridge", "scale", "x", "y")
    found = [unit("a-one", "own", "x"), unit("b-one", "sync", "y"), bridge]
    entries = registry("a-one", "b-one", "d-bridge")
    lists = {"train": [entries[n].id for n in range(3)], "test": [entries[n].id for n in range(3, 6)]}
    record = check_split(stranger(tmp_path, **lists), found, entries, DIGEST)
    assert record.straddling
    assert any("3 cases are on no side" in said for said in record.problems)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test": []}, "side test is empty"),
        ({"train": ["SP-99999"]}, "'SP-99999' in train is no case"),
        ({"test": ["SP-00010", "SP-00010"]}, "which is in test already"),
        ({"test": ["SP-00010", "c-one/1"]}, "c-one/1 in test is the case SP-00010"),
        ({"validation": ["SP-00010"]}, "SP-00010 in validation is the case SP-00010, which is in test already"),
        ({"test": ["SP-00010"]}, "2 cases are on no side"),
    ],
)
def test_what_else_is_wrong_with_lists(tmp_path, change, said):
    lists = {
        "train": [entry.id for entry in ENTRIES if entry.mechanism != "c-one"],
        "test": [entry.id for entry in ENTRIES if entry.mechanism == "c-one"],
    }
    assert check_split(stranger(tmp_path, **lists), FOUR, ENTRIES, DIGEST).verdict == "held"
    record = check_split(stranger(tmp_path, **(lists | change)), FOUR, ENTRIES, DIGEST)
    assert record.verdict == "violated"
    assert any(said in problem for problem in record.problems), record.problems


def test_withdrawn_cases_belong_nowhere():
    entries = (*ENTRIES[:-1], ENTRIES[-1].model_copy(update={"state": "withdrawn", "reason": "it was wrong"}))
    made = split_of(FOUR, entries)
    assert ENTRIES[-1].id not in made.train + made.test
    assert any("withdrawn" in said for said in check_split(split_of(FOUR, ENTRIES), FOUR, entries, DIGEST).problems)


def test_another_catalogues_digest_is_a_mismatch():
    assert check_split(split_of(FOUR, ENTRIES), FOUR, ENTRIES, "cd" * 32).verdict == "mismatch"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fraction_met": 0.123}, "fraction_met is 0.123"),
        ({"groups": {"own": "test", "sync": "train", "order": "train"}}, "its groups are not on the sides"),
        ({"kept_out": [{"id": "SP-00001", "why": "a secret"}]}, "SP-00001 is kept out and on a side"),
        ({"kept_out": [{"id": "SP-77777", "why": "a secret"}]}, "'SP-77777' is kept out and is no case"),
    ],
)
def test_a_record_of_ours_that_was_edited(change, said):
    made = split_of(FOUR, ENTRIES)
    record = check_split(Split.model_validate(made.model_dump() | change), FOUR, ENTRIES, DIGEST)
    assert record.verdict == "violated"
    assert any(said in problem for problem in record.problems), record.problems


def test_cases_cannot_be_hidden_as_kept_out():
    """Only a mechanism that would join both sides may be kept out."""
    made = split_of(FOUR, ENTRIES)
    gone = [entry.id for entry in ENTRIES if entry.mechanism == "b-one"]
    train, test = ([name for name in ids if name not in gone] for ids in (made.train, made.test))
    change = {
        "train": train,
        "test": test,
        "fraction_met": len(test) / 9,
        "groups": {name: side for name, side in made.groups.items() if name != "sync"},
        "kept_out": [{"id": name, "why": "hard to place"} for name in gone],
    }
    record = check_split(Split.model_validate(made.model_dump() | change), FOUR, ENTRIES, DIGEST)
    assert record.problems == ("b-one is kept out and would not join both sides",)


def grown(*more):
    return [*FOUR, *more], registry("a-one", "a-two", "b-one", "c-one", *(one.slug for one in more))


def test_old_cases_never_move():
    old = split_of(FOUR, ENTRIES)
    found, entries = grown(unit("d-new", "sync"), unit("e-new", "weight"))
    for seed in range(20):
        new = split_of(found, entries, seed=seed, fraction=0.9, old=old)
        assert set(old.train) <= set(new.train)
        assert set(old.test) <= set(new.test)
        side = new.train if "SP-00007" in old.train else new.test
        assert "SP-00013" in side, "a new mechanism follows its group"
        assert check_split(new, found, entries, DIGEST).verdict == "held"


def test_a_bridge_is_kept_out_of_both_sides():
    """It would join groups of both sides; one that hangs on nothing but the bridge is placed."""
    found = [unit("a-one", "own", "x"), unit("b-one", "sync", "y")]
    old = split_of(found, registry("a-one", "b-one"))
    found += [unit("c-bridge", "scale", "x", "y", "z"), unit("d-after", "weight", "z")]
    entries = registry("a-one", "b-one", "c-bridge", "d-after")
    new = split_of(found, entries, old=old)
    assert [one.id for one in new.kept_out] == ["SP-00007", "SP-00008", "SP-00009"]
    assert "would join both sides" in new.kept_out[0].why
    assert not {one.id for one in new.kept_out} & {*new.train, *new.test}
    assert check_split(new, found, entries, DIGEST).verdict == "held"
    again = split_of(found, entries, old=new)
    assert (again.train, again.test) == (new.train, new.test), "continued again, nothing moves"


def test_two_new_ones_that_bridge_together():
    """Each joins one side; the second, which would close the bridge, is kept out."""
    found = [unit("a-one", "own", "x"), unit("b-one", "sync", "y")]
    old = split_of(found, registry("a-one", "b-one"))
    found += [unit("c-new", "scale", "x", "z"), unit("d-new", "weight", "z", "y")]
    entries = registry("a-one", "b-one", "c-new", "d-new")
    new = split_of(found, entries, old=old)
    assert [one.id for one in new.kept_out] == ["SP-00010", "SP-00011", "SP-00012"]
    assert check_split(new, found, entries, DIGEST).verdict == "held"


def test_an_old_split_that_straddles_today_is_refused(tmp_path):
    ids = [entry.id for entry in ENTRIES]
    with pytest.raises(SplitError, match="parts no mechanism"):
        split_of(FOUR, ENTRIES, old=stranger(tmp_path, train=ids[:1], test=ids[1:2]))
    with pytest.raises(SplitError, match="own on both sides"):
        split_of(FOUR, ENTRIES, old=stranger(tmp_path, train=ids[:3], test=ids[3:6]))
    with pytest.raises(SplitError, match="SP-99999"):
        split_of(FOUR, ENTRIES, old=stranger(tmp_path, train=ids[:3], test=["SP-99999"]))


@pytest.mark.parametrize("fraction", [0, 1, -0.5, float("nan")])
def test_fractions_that_are_none(fraction):
    with pytest.raises(InvalidValueError, match="between 0 and 1"):
        split_of(FOUR, ENTRIES, fraction=fraction)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"train": ["SP-00001"]}',
        '{"train": "SP-00001", "test": []}',
        '{"train": [], "test": [], "dev": []}',
        '{"train": [], "train": [], "test": []}',
        '{"train": [1], "test": []}',
        '{"kind": "shardproof.split", "train": [], "test": []}',
    ],
)
def test_files_that_are_no_split(tmp_path, text):
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(InvalidValueError):
        read_split(tmp_path / "split.json")
