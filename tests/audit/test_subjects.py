"""Subjects: found without being imported, refused where that shows them wrong, called with what they take."""

import functools
import sys
from pathlib import Path

import pytest

from shardproof.audit.layouts import named
from shardproof.audit.run import plan_of
from shardproof.audit.subjects import adapted, parse
from shardproof.errors import InvalidValueError


def test_the_built_in_subjects_need_torch():
    pytest.importorskip("torch", reason="built-in subjects need torch")
    assert (parse("torch").name, parse("shardproof").name) == ("torch", "shardproof")


def test_a_file_is_found_and_its_digest_kept(subjects):
    subject = parse(f"{subjects / 'right.py'}:by_hand")

    assert subject.name == "right.py:by_hand"
    assert len(subject.sha256) == 64
    assert Path(subject.file).is_absolute()


def test_a_module_is_found_without_importing_it_or_its_package(tmp_path, monkeypatch):
    package = tmp_path / "audited_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "clips.py").write_text("raise RuntimeError('imported')\ndef clip(params, limit): ...")
    monkeypatch.syspath_prepend(tmp_path)

    assert parse("audited_package.clips:clip").file == str(package / "clips.py")
    assert "audited_package" not in sys.modules


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("jax", "Expected torch, torch-total-norm"),
        ("", "Expected torch, torch-total-norm"),
        ("file.py", "Expected torch, torch-total-norm"),
        ("file.py:", "Expected torch, torch-total-norm"),
        ("file.py:not a name", "Expected torch, torch-total-norm"),
        ("no_such_file.py:clip", "not there"),
        ("no_such_module_anywhere:clip", "no 'no_such_module_anywhere'"),
        ("json.no_such_part:clip", "no 'no_such_part'"),
        ("json:clip_nothing_of_the_kind", "the file has none"),
        ("..json:clip", "no ''"),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_refused(spec, message):
    with pytest.raises(InvalidValueError, match=message):
        parse(spec)


def two(params, limit):
    return (params, limit)


def three(params, limit, context):
    return (params, limit, context)


def keyword(params, limit, *, ctx):
    return (params, limit, ctx)


def default(params, limit, ctx=None):
    return (params, limit, ctx)


def positional(params, limit, ctx=None, /):
    return (params, limit, ctx)


def like_torch(params, limit, norm_type=2.0, foreach=None):
    return (params, limit, norm_type)


def anything(*args):
    return args


@functools.wraps(two)
def wrapped(*args, **kwargs):
    return two(*args, **kwargs)


class Callable:
    def __call__(self, params, limit, ctx):
        return (params, limit, ctx)


@pytest.mark.parametrize(
    ("clip", "arguments"),
    [
        (two, ("p", 1.0)),
        (three, ("p", 1.0, "ctx")),
        (keyword, ("p", 1.0, "ctx")),
        (default, ("p", 1.0, "ctx")),
        (positional, ("p", 1.0, "ctx")),
        (like_torch, ("p", 1.0, 2.0)),
        (anything, ("p", 1.0, "ctx")),
        (wrapped, ("p", 1.0)),
        (Callable(), ("p", 1.0, "ctx")),
        (max, 3),
    ],
)
def test_a_callable_gets_the_arguments_it_takes(clip, arguments):
    if clip is max:
        assert adapted(clip)(2, 3, 1) == 3, "a built-in without a signature is called with two"
    else:
        assert adapted(clip)("p", 1.0, "ctx") == arguments


def test_two_files_of_the_same_name_are_told_apart(tmp_path):
    specs = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text("def clip(params, limit): ...")
        specs.append(f"{tmp_path / folder / 'mine.py'}:clip")

    plan = plan_of([*specs, specs[0]], named(["one-rank"]), timeout_s=1.0)

    assert [subject.name for subject in plan.subjects] == specs
    assert len({cell.id for cell in plan.cells}) == 3
    assert plan_of(specs[:1], named(["one-rank"]), timeout_s=1.0).subjects[0].name == "mine.py:clip"
