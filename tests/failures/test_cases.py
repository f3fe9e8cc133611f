"""The registry: ids are appended, never reused, removed or renumbered; each way to do so is found."""

from __future__ import annotations

import pytest
from tests.failures.catalogues import FAMILY, SLUG, copy_catalogue, edit

from shardproof.failures.cases import (
    REGISTRY,
    RegistryError,
    assigned,
    read_registry,
    registry_gaps,
    registry_problems,
    registry_since,
    retired,
    write_registry,
)
from shardproof.failures.mechanism import CATALOGUE, load_catalogue
from shardproof.failures.selection import choose
from shardproof.records.map import CaseEntry


@pytest.fixture
def registered(tmp_path):
    """A copy with its registry written: (path, entries, mechanisms)."""
    catalogue, _ = copy_catalogue(tmp_path)
    mechanisms = load_catalogue(catalogue)
    write_registry(assigned((), mechanisms), catalogue / REGISTRY)
    return catalogue / REGISTRY, read_registry(catalogue / REGISTRY), mechanisms


def changed(entries, at: int, **fields) -> list[CaseEntry]:
    result = list(entries)
    result[at] = CaseEntry.model_validate(result[at].model_dump() | fields)
    return result


def test_ids_are_appended_and_the_seed_keeps_its_published_one(registered):
    """A new variant gets the next id; what was there stays byte for byte."""
    path, entries, _ = registered
    assert [entry.id for entry in entries] == [f"SP-0000{n}" for n in range(1, 6)]
    assert entries[0].aliases == ("FA-99266",)
    before = path.read_text()
    edit(path.parent / FAMILY / SLUG / "mechanism.toml", "[1, 2, 3, 4, 5]", "[7, 1, 2, 3, 4, 5]")
    write_registry(assigned(entries, load_catalogue(path.parent)), path)
    assert path.read_text().startswith(before)
    assert (read_registry(path)[-1].id, read_registry(path)[-1].variant) == ("SP-00006", 7)


def test_the_catalogues_own_registry_holds_its_rules():
    """The registry in the package, with the seed's case first."""
    entries = read_registry()
    assert registry_problems(entries) == []
    assert (entries[0].id, entries[0].mechanism, entries[0].variant) == ("SP-00001", SLUG, 1)
    assert choose(["FA-99266"]) == choose(["SP-00001"]) == choose([f"{SLUG}/1"])
    assert {entry.mechanism for entry in entries} <= {path.parent.name for path in CATALOGUE.glob("*/*/mechanism.toml")}


def test_a_removed_reused_or_renumbered_id_is_found_in_the_file_itself(registered):
    """Lines taken out, swapped, pointed elsewhere, doubled; a state without its reason."""
    path, _, _ = registered
    lines = path.read_text().splitlines(keepends=True)
    bad = {
        "removed": (lines[:2] + lines[3:], "line 3 has id SP-00004, expected SP-00003"),
        "swapped": ([lines[0], lines[2], lines[1], *lines[3:]], "line 2 has id SP-00003"),
        "renumbered": ([line.replace("SP-00004", "SP-00006") for line in lines], "line 4 has id SP-00006"),
        "pointed elsewhere": ([line.replace('"variant":4', '"variant":9') for line in lines], "SP-00004: its seal"),
        "twice": ([*lines, lines[-1].replace("SP-00005", "SP-00006")], f"{SLUG} variant 5 has 2 ids"),
        "withdrawn without reason": (
            [*lines[:4], lines[4].replace("}", ',"state":"withdrawn"}')],
            "do not go together",
        ),
        "an unknown field": ([*lines[:4], lines[4].replace("}", ',"x":1}')], "line 5: Extra inputs"),
        "an alias twice": ([*lines[:4], lines[4].replace("}", ',"aliases":["FA-99266"]}')], "names 2 cases"),
    }
    for what, (text, named) in bad.items():
        path.write_text("".join(text))
        with pytest.raises(RegistryError, match=named):
            read_registry(path)
        assert text != lines, what


def test_what_an_older_registry_held_is_still_there(registered):
    """Lines cut from the end are well-formed alone, and found against the older file."""
    _, entries, _ = registered
    assert registry_problems(entries[:4]) == []
    assert registry_since(entries, entries[:4]) == ["SP-00005 is gone: a case is withdrawn, never removed"]
    assert "named local-shard-clip variant 2" in registry_since(entries, changed(entries, 1, variant=9))[0]
    assert "lost an alias" in registry_since(entries, changed(entries, 0, aliases=()))[0]
    gone = retired(entries, "SP-00002", "withdrawn", "it asked the wrong thing")
    assert registry_since(entries, gone) == []
    assert "withdrawn and is active" in registry_since(gone, entries)[0]


def test_a_registry_that_loses_a_line_is_not_written(registered):
    """The file on disk is the older registry of every write."""
    path, entries, _ = registered
    before = path.read_text()
    with pytest.raises(RegistryError, match="SP-00005 is gone"):
        write_registry(entries[:4], path)
    assert path.read_text() == before


def test_a_withdrawn_case_keeps_its_line_and_is_not_run(registered):
    """Its id is never given again, and naming it says why it is gone."""
    path, entries, mechanisms = registered
    with pytest.raises(RegistryError, match="a reason"):
        retired(entries, "SP-00005", "withdrawn", None)
    write_registry(retired(entries, "SP-00005", "withdrawn", "its fixture was not exact"), path)
    assert [n for chosen in choose([], catalogue=path.parent) for _, n in chosen.variants] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="withdrawn: its fixture was not exact"):
        choose(["SP-00005"], catalogue=path.parent)
    assert registry_gaps(read_registry(path), mechanisms) == []
    edit(path.parent / FAMILY / SLUG / "mechanism.toml", "[1, 2, 3, 4, 5]", "[1, 2, 3]")
    gaps = registry_gaps(read_registry(path), load_catalogue(path.parent))
    assert gaps == [f"SP-00004: {SLUG} variant 4 is not in the catalogue; withdraw it"]


def test_a_deprecated_case_is_still_run(registered):
    """It says why it should not be built upon; its id still names it."""
    path, entries, _ = registered
    write_registry(retired(entries, "SP-00002", "deprecated", "a better fixture is there"), path)
    assert choose(["SP-00002"], catalogue=path.parent)[0].variants == (("SP-00002", 2),)
    assert read_registry(path)[1].reason == "a better fixture is there"


def test_names_choose_cases(registered):
    """Ids, aliases, slugs, families, folders, variants beside the registered ones; others are errors."""
    path, _, _ = registered
    catalogue = path.parent
    named = choose(["SP-00002", f"{SLUG}/9"], catalogue=catalogue)
    assert named[0].variants == (("SP-00002", 2), (f"{SLUG}/9", 9))
    assert len(choose([FAMILY], catalogue=catalogue)[0].variants) == 5
    assert choose([SLUG], range(4, 8), catalogue)[0].variants[-2:] == ((f"{SLUG}/6", 6), (f"{SLUG}/7", 7))
    elsewhere = choose([str(catalogue / FAMILY / SLUG)])
    assert [name for name, _ in elsewhere[0].variants] == [f"{SLUG}/{n}" for n in range(1, 6)]
    assert elsewhere[0].folder == catalogue / FAMILY / SLUG
    for name in ("SP-99999", "nothing", "nothing/1", f"{SLUG}/0", f"{SLUG}/x"):
        with pytest.raises(ValueError, match="Expected"):
            choose([name], catalogue=catalogue)


def test_every_variant_of_the_catalogue_has_its_id():
    """`map cases` finds nothing: no variant without an id, no id without its variant."""
    assert registry_gaps(read_registry(), load_catalogue()) == []
