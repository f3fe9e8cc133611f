"""Tiers: what each holds, nothing half written, and a leak check that finds what is smuggled in."""

from __future__ import annotations

import ast
import base64
import builtins
import gzip
import html
import io
import json
import keyword
import re
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
from tests.failures.catalogues import FAMILY, SLUG, copy_catalogue

from shardproof.errors import InvalidValueError
from shardproof.failures.bundles import archive, case_bundle, case_json
from shardproof.failures.folders import write_folder
from shardproof.failures.groups import groups_of
from shardproof.failures.kept import ResultsError
from shardproof.failures.leaks import NothingHeldBackError, leaks_in, look_through, secrets_of
from shardproof.failures.mechanism import checks_of, load_catalogue, member_of, members_folder
from shardproof.failures.plan import load, plan_case
from shardproof.failures.render import sha256
from shardproof.failures.tiers import LeakError, encrypted, publish_member, publish_open, results_of
from shardproof.failures.verification import Effort, verify_cases
from shardproof.records.map_share import MemberCase, OpenCase, TierRecord

pytestmark = pytest.mark.skipif(members_folder() is None, reason="repairs are held back: no members/ here")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A catalogue of the seed's mechanism, with plans of two cases, groups and secrets."""
    catalogue, members = copy_catalogue(tmp_path_factory.mktemp("catalogue"))
    mechanisms = load_catalogue(catalogue)
    loaded = load(mechanisms[0], members)
    plans = [plan_case(loaded, f"SP-0000{n}", n) for n in (1, 2)]
    return plans, groups_of(mechanisms, (), members), secrets_of(mechanisms, members, plans), members


@pytest.fixture(scope="module")
def repair(here):
    return (here[3] / SLUG / "repair.py").read_text()


def published(here, out, **more):
    plans, groups, secrets, _ = here
    return publish_open(out, plans, groups, secrets, **more)


def test_the_open_tier_has_no_repair(here, tmp_path, repair):
    published(here, tmp_path / "open")
    files = sorted(str(path.relative_to(tmp_path / "open")) for path in (tmp_path / "open").rglob("*.*"))
    assert files == [
        "bundles/SP-00001.zip",
        "bundles/SP-00002.zip",
        "cases/SP-00001.json",
        "cases/SP-00002.json",
        "tier.json",
    ]
    case = OpenCase.model_validate_json((tmp_path / "open/cases/SP-00001.json").read_bytes())
    assert {one.role for one in case.content.programs} == {"failing", "unsuccessful"}
    assert len(case.content.checks) == 7
    tier = TierRecord.model_validate_json((tmp_path / "open/tier.json").read_bytes())
    assert tier.held_back == {"own": (SLUG,)}
    for name, digest in tier.files.items():
        assert sha256((tmp_path / "open" / name).read_bytes()) == digest
    everything = b"".join(path.read_bytes() for path in (tmp_path / "open").rglob("*.*"))
    assert repair.splitlines()[-1].strip().encode() not in everything


def test_the_member_tier_has_what_is_held_back(here, tmp_path):
    plans, groups, _, members = here
    assert publish_member(tmp_path / "member", plans, groups) == 5
    case = MemberCase.model_validate_json((tmp_path / "member/cases/SP-00002.json").read_bytes())
    assert case.repair.sha256 == sha256((tmp_path / "member/repairs/SP-00002.py").read_bytes())
    assert len(case.held_back.checks) == len(checks_of(member_of(SLUG, members).held_back, 2))
    assert (tmp_path / "member").stat().st_mode & 0o077 == 0
    without = [plan_case(load(load_catalogue()[0], None), "SP-00001", 1)]
    with pytest.raises(InvalidValueError, match="Expected the repair"):
        publish_member(tmp_path / "none", without, groups_of(load_catalogue(), (), None))
    assert not (tmp_path / "none").exists()


@pytest.mark.processes
def test_observations_go_to_the_tier_that_they_belong_to(here, tmp_path):
    plans, groups, _, _ = here
    lines = []
    verify_cases(plans, Effort(level="none"), sink=lambda result: lines.append(result.model_dump_json() + "\n"))
    (tmp_path / "results.jsonl").write_text("".join(lines))
    results = results_of(tmp_path / "results.jsonl", plans)
    published(here, tmp_path / "open", results=results)
    publish_member(tmp_path / "member", plans, groups, results=results)
    case = OpenCase.model_validate_json((tmp_path / "open/cases/SP-00001.json").read_bytes())
    assert [(one.role, one.exit_code) for one in case.observations] == [("failing", 1), ("unsuccessful", 1)]
    member = MemberCase.model_validate_json((tmp_path / "member/cases/SP-00001.json").read_bytes())
    assert [row.passed for row in member.repair_observations] == [True] * 7
    (tmp_path / "results.jsonl").write_text("".join(lines).replace('"verdict":"held"', '"verdict":"violated"'))
    with pytest.raises(ResultsError):
        results_of(tmp_path / "results.jsonl", plans)
    (tmp_path / "results.jsonl").write_text("".join(lines).replace(plans[0].digest, "0" * 64))
    with pytest.raises(ResultsError):
        results_of(tmp_path / "results.jsonl", plans)


def test_a_leak_stops_the_publish_and_nothing_is_left(here, tmp_path, repair):
    wheel = tmp_path / "built.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("shardproof/clipping.py", repair.replace("norm", "length").replace("shard", "part"))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(LeakError) as caught:
        published(here, tmp_path / "open", wheels=[wheel])
    assert sorted(tmp_path.iterdir()) == before
    assert "built.whl!shardproof/clipping.py" in {leak.file for leak in caught.value.record.leaks}


RENAMES = {"norm": "n0", "shards": "pieces", "shard": "piece", "value": "x", "limit": "bound", "solve": "run"}


def renamed(text):
    for before, after in RENAMES.items():
        text = re.sub(rf"\b{before}\b", after, text)
    return text


def reformatted(text):
    """Another layout: needless parentheses, types, docstrings, trailing commas, other quotes and indentation."""
    text = text.replace(
        "def solve(shards, limit):", 'def solve(shards: list, limit: "float",) -> list:\n    """Doc."""'
    )
    text = text.replace("norm = math", "norm: float = (math").replace("in shard))", "in shard)))")
    return (
        text.replace("    ", "  ")
        .replace("return [[", "return [  # all\n  [")
        .replace("* limit / norm, 12)", "*limit/norm,\n12,)")
    )


SMUGGLED = {
    "as it is": lambda text: text,
    "renamed": renamed,
    "reformatted": reformatted,
    "renamed and reformatted": lambda text: renamed(reformatted(text)),
    "one statement in prose": lambda text: f"It says `{renamed(text.strip().splitlines()[-1].strip())}`, you see.",
    "in a page": lambda text: f"<html><pre>{html.escape(renamed(text))}</pre></html>",
    "in a page, highlighted": lambda text: (
        "<pre>" + re.sub(r"(\w+)", r"<span class='n'>\1</span>", html.escape(renamed(text))) + "</pre>"
    ),
    "in markdown": lambda text: f"# Notes\n\n```python\n{renamed(reformatted(text))}\n```\n",
    "in a docstring": lambda text: f'"""Notes.\n\n{renamed(text).replace(chr(34) * 3, "")}\n"""\n',
    "in a comment": lambda text: "".join(f"    # {line}\n" for line in renamed(text).splitlines()),
    "quoted": lambda text: "".join(f"> {line}\n" for line in renamed(text).splitlines()),
    "in a difference": lambda text: "".join(f"+{line}\n" for line in renamed(text).splitlines()),
    "numbered": lambda text: "".join(f"{at:3} {line}\n" for at, line in enumerate(renamed(text).splitlines())),
    "in the rows of a table": lambda text: "".join(
        f"<tr><td>{at}</td><td>{html.escape(line)}</td></tr>" for at, line in enumerate(renamed(text).splitlines())
    ),
    "with signs that cannot be seen": lambda text: renamed(text).replace("(", "(\u200b").replace(" = ", " \u2060= "),
    "in a string in two parts": lambda text: f"TEXT = (\n    {renamed(text)[:230]!r}\n    {renamed(text)[230:]!r}\n)\n",
    "in an address": lambda text: "".join(f"%{byte:02x}" for byte in renamed(text).encode()),
    "in JSON": lambda text: json.dumps({"notes": ["nothing", renamed(text)]}),
    "in JSON, line by line": lambda text: json.dumps({"notes": renamed(text).splitlines()}),
    "in JSON in JSON": lambda text: json.dumps({"notes": json.dumps({"more": renamed(text)})}),
    "in JSON lines": lambda text: '{"a": 1}\n' + json.dumps({"b": renamed(text)}) + "\n",
    "in a Python literal": lambda text: f"TEXT = {renamed(text)!r}\n",
    "in base64": lambda text: f"data:{base64.b64encode(renamed(text).encode()).decode()}",
    "in base64, in lines": lambda text: base64.encodebytes(renamed(text).encode()).decode(),
    "packed in base64": lambda text: base64.urlsafe_b64encode(zlib.compress(renamed(text).encode())).decode(),
    "in hexadecimal": lambda text: renamed(text).encode().hex(),
    "in UTF-16": lambda text: renamed(text).encode("utf-16"),
    "packed": lambda text: gzip.compress(renamed(text).encode()),
    "in an archive in an archive": lambda text: archive({"inner.zip": archive({"notes.txt": renamed(text).encode()})}),
}


@pytest.mark.parametrize("way", SMUGGLED)
def test_a_smuggled_repair_is_found(here, tmp_path, repair, way):
    data = SMUGGLED[way](repair)
    (tmp_path / "page").write_bytes(data if isinstance(data, bytes) else data.encode())
    record = look_through([tmp_path], here[2])
    assert {(leak.what, leak.mechanism) for leak in record.leaks} == {("repair", SLUG)}, record


@pytest.mark.parametrize("form", ["python", "json", "spaced", "labels", "source"])
def test_held_back_checks_are_found(here, form):
    member = member_of(SLUG, here[3])
    checks = checks_of(member.held_back, 2)
    text = {
        "python": f"solve(*{checks[0].arguments!r})",
        "json": json.dumps(checks[0].arguments),
        "spaced": re.sub(r"([\[\],])", r" \1\n", json.dumps({"arguments": checks[0].arguments})),
        "labels": json.dumps([check.label for check in checks]),
        "source": renamed(member.held_back.read_text()),
    }[form]
    assert {leak.what for leak in leaks_in("page", text.encode(), here[2])} == {"held-back check"}


def test_digests_are_found(here):
    plans, _, secrets, members = here
    for digest in (
        sha256((members / SLUG / "repair.py").read_bytes()),
        next(one.sha256 for one in plans[1].programs if one.role == "repair"),
    ):
        for text in (digest, digest.upper(), json.dumps({"sha256": digest})):
            assert [leak.what for leak in leaks_in("page", text.encode(), secrets)] == ["digest"]


def test_what_is_open_is_no_leak(here):
    """The open programs and checks, renamed too, and prose that uses a label's words."""
    plans, _, secrets, members = here
    open_texts = [one.source for plan in plans for one in plan.content.programs]
    label = checks_of(member_of(SLUG, members).held_back, 1)[0].label
    for text in (*open_texts, *map(renamed, open_texts), f"We cut {label} and look.", "norm = limit / factor", ""):
        assert not leaks_in("page", text.encode(), secrets), text


def test_our_own_package_and_pages_hold_nothing_back():
    """All that is packaged or documented, against all that is held back: no leak, and no false alarm."""
    secrets = secrets_of(load_catalogue(), members_folder())
    assert len(secrets.mechanisms) == len(load_catalogue())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for path in [*(ROOT / "src").rglob("*"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
            if path.suffix in (".py", ".toml", ".jsonl", ".html", ".css", ".md"):
                file.write(path, path.relative_to(ROOT))
    known: dict = {}
    with zipfile.ZipFile(packed) as file:
        found = [leak for name in file.namelist() for leak in leaks_in(name, file.read(name), secrets, known)]
    assert not found


class Renamed(ast.NodeTransformer):
    """Every name that is no keyword, built-in, attribute or module; those inside of f-strings too."""

    KEPT = frozenset({*dir(builtins), *keyword.kwlist, "math", "Fraction", "fractions"})

    def other(self, name):
        return name if name in self.KEPT else f"z_{name}"

    def visit_Name(self, node):
        return ast.Name(self.other(node.id), node.ctx)

    def visit_arg(self, node):
        return ast.arg(self.other(node.arg))

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.name = self.other(node.name)
        return node


def all_renamed(text):
    return ast.unparse(ast.fix_missing_locations(Renamed().visit(ast.parse(text))))


def test_every_mechanisms_repair_is_found_under_other_names():
    mechanisms, members = load_catalogue(), members_folder()
    secrets = secrets_of(mechanisms, members)
    for mechanism in mechanisms:
        other = all_renamed((members / mechanism.slug / "repair.py").read_text())
        assert "z_solve" in other
        found = leaks_in("page", other.encode(), secrets)
        assert mechanism.slug in {leak.mechanism for leak in found}, mechanism.slug


def test_what_cannot_be_looked_into_is_no_all_clear(here, tmp_path):
    whole = archive({"a.txt": b"text" * 100})
    (tmp_path / "broken.whl").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidValueError, match="can be read"):
        look_through([tmp_path / "broken.whl"], here[2])
    with pytest.raises(InvalidValueError, match="not there"):
        look_through([tmp_path / "none.whl"], here[2])
    nested = b"text"
    for _ in range(8):
        nested = archive({"inner.zip": nested})
    (tmp_path / "deep.zip").write_bytes(nested)
    with pytest.raises(InvalidValueError, match="nested"):
        look_through([tmp_path / "deep.zip"], here[2])


def test_without_repairs_nothing_can_be_looked_for(tmp_path):
    for members in (None, tmp_path):
        with pytest.raises(NothingHeldBackError):
            secrets_of(load_catalogue(), members)


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def broken():
        yield "a", b"1"
        raise InvalidValueError("no")

    with pytest.raises(InvalidValueError):
        write_folder(tmp_path / "out", broken())
    assert not list(tmp_path.iterdir())
    assert write_folder(tmp_path / "out", [("a/b", b"1"), ("c", b"2")]) == 2
    with pytest.raises(InvalidValueError, match="holds something"):
        write_folder(tmp_path / "out", [("a", b"1")])


def test_encryption_to_recipients(here, tmp_path):
    pyrage = pytest.importorskip("pyrage", reason="pyrage, which encrypts, is not installed")
    identity = pyrage.x25519.Identity.generate()
    plans, groups, _, _ = here
    publish_member(tmp_path / "member", plans, groups, recipients=[str(identity.to_public())])
    (file,) = (tmp_path / "member").iterdir()
    opened = pyrage.decrypt(file.read_bytes(), [identity])
    with zipfile.ZipFile(io.BytesIO(opened)) as inner:
        assert "repairs/SP-00001.py" in inner.namelist()
    assert b"SP-00001" not in file.read_bytes()
    with pytest.raises(InvalidValueError, match="age recipients"):
        encrypted(b"", ["age1nobody"])


def test_without_pyrage_it_says_what_to_install(here, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyrage", None)
    plans, groups, _, _ = here
    with pytest.raises(InvalidValueError, match=r"shardproof\[age\]"):
        publish_member(tmp_path / "member", plans, groups, recipients=["age1someone"])
    assert not (tmp_path / "member").exists()


def test_a_bundle_is_the_same_on_every_build(here, monkeypatch):
    plan = here[0][0]
    first = case_bundle(plan, "own")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert case_bundle(plan, "own") == first
    without = plan_case(load(load_catalogue(plan_catalogue(here))[0], None), "SP-00001", 1)
    assert case_bundle(without, "own") == first, "with and without the repair"
    with zipfile.ZipFile(io.BytesIO(first)) as file:
        assert file.namelist() == ["README.txt", "SHA256SUMS", "case.json", "failing.py", "unsuccessful.py"]
        for line in file.read("SHA256SUMS").decode().splitlines():
            digest, name = line.split("  ")
            assert sha256(file.read(name)) == digest
        assert sha256(file.read("case.json")) == plan.digest == sha256(case_json(plan))
        assert {(info.date_time, info.compress_type) for info in file.infolist()} == {((1980, 1, 1, 0, 0, 0), 0)}


def plan_catalogue(here):
    catalogue = here[3].parent / "catalogue"
    assert (catalogue / FAMILY / SLUG).is_dir()
    return catalogue
