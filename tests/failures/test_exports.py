"""Exports: canonical JSON, JSONL, bundles, Croissant, Hugging Face, Inspect, in-toto; none of them holds a repair."""

from __future__ import annotations

import hashlib
import json

import pytest
import rfc8785
from tests.failures.catalogues import SLUG, copy_catalogue

from shardproof.errors import InvalidValueError
from shardproof.failures.bundles import SUMS
from shardproof.failures.exports.croissant import croissant_files
from shardproof.failures.exports.huggingface import COLUMNS, huggingface_files
from shardproof.failures.exports.inspect_task import code_of, inspect_files, judged, prompt, repair_task
from shardproof.failures.exports.intoto import intoto_files
from shardproof.failures.exports.jsonl import bundle_files, json_files, jsonl_files
from shardproof.failures.mechanism import load_catalogue, members_folder
from shardproof.failures.plan import case_digest, load, plan_case
from shardproof.failures.verification import Effort, verify_cases
from shardproof.records.map import CaseContent
from shardproof.records.map_share import ExportedCase, Split

GROUPS = {SLUG: "own"}
DIGEST = "ab" * 32


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    catalogue, members = copy_catalogue(tmp_path_factory.mktemp("catalogue"))
    loaded = load(load_catalogue(catalogue)[0], members)
    return [plan_case(loaded, f"SP-0000{n}", n) for n in (1, 2, 3)]


@pytest.fixture(scope="module")
def results(plans):
    found = {}
    verify_cases(plans, Effort(level="none"), sink=lambda result: found.setdefault(result.id, result))
    return found


def sums_hold(files):
    for line in files[SUMS].decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(files[name]).hexdigest() == digest
    return len(files) - 1


def test_the_sum_of_a_json_file_is_the_case_digest(plans):
    files = dict(json_files(plans))
    assert sums_hold(files) == 3
    for plan in plans:
        data = files[f"{plan.content.id}.json"]
        assert hashlib.sha256(data).hexdigest() == plan.digest
        assert rfc8785.dumps(json.loads(data)) == data
        assert case_digest(CaseContent.model_validate_json(data)) == plan.digest


def test_bundles_are_the_same_twice(plans):
    assert dict(bundle_files(plans, GROUPS)) == dict(bundle_files(plans, GROUPS))
    assert sums_hold(dict(bundle_files(plans, GROUPS))) == 3


def test_jsonl_reads_back(plans):
    ((_, data),) = jsonl_files(plans, GROUPS)
    lines = [ExportedCase.model_validate_json(line) for line in data.splitlines()]
    assert [line.case for line in lines] == [plan.content for plan in plans]
    assert [case_digest(line.case) for line in lines] == [line.digest for line in lines]


def test_croissant_metadata_fits_its_data(plans):
    files = dict(croissant_files(plans, GROUPS, DIGEST, "0.1.0"))
    data = json.loads(files["croissant.json"])
    (file,) = data["distribution"]
    assert file["sha256"] == hashlib.sha256(files[file["contentUrl"]]).hexdigest()
    rows = [json.loads(line) for line in files["cases.jsonl"].splitlines()]
    (records,) = data["recordSet"]
    columns = [field["source"]["extract"]["column"] for field in records["field"]]
    kinds = {"sc:Integer": int, "sc:Text": str}
    for row in rows:
        assert list(row) == columns
        for field in records["field"]:
            assert type(row[field["source"]["extract"]["column"]]) is kinds[field["dataType"]]
    assert data["conformsTo"] == "http://mlcommons.org/croissant/1.0"


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")  # rdflib's, about itself
def test_croissant_metadata_is_read_by_mlcroissant(plans, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant, which validates metadata, is not installed")
    for name, data in croissant_files(plans, GROUPS, DIGEST, "0.1.0"):
        (tmp_path / name).write_bytes(data)
    dataset = mlcroissant.Dataset(jsonld=str(tmp_path / "croissant.json"))
    assert [record["cases/id"] for record in dataset.records("cases")] == [plan.content.id.encode() for plan in plans]


def test_huggingface_folder_without_and_with_a_split(plans):
    files = dict(huggingface_files(plans, GROUPS, DIGEST))
    assert set(files) == {"README.md", "data/cases.jsonl"}
    assert [list(json.loads(line)) for line in files["data/cases.jsonl"].splitlines()] == [list(COLUMNS)] * 3
    split = Split(
        level="group",
        seed=3,
        fraction_asked=0.5,
        fraction_met=0.5,
        catalogue_digest=DIGEST,
        groups={},
        train=("SP-00001",),
        test=("SP-00003",),
    )
    files = dict(huggingface_files(plans, GROUPS, DIGEST, split))
    ids = {
        name: [json.loads(line)["id"] for line in data.splitlines()] for name, data in files.items() if "data" in name
    }
    assert ids == {"data/train.jsonl": ["SP-00001"], "data/test.jsonl": ["SP-00003"]}
    head = files["README.md"].decode().split("---\n")[1]
    for name in ids:
        assert f"path: {name}\n" in head
    assert "2 cases of 1 mechanisms" in files["README.md"].decode()


@pytest.mark.processes
def test_intoto_statements_name_open_programs_only(plans, results):
    files = dict(intoto_files(plans, {"SP-00002": results["SP-00002"]}))
    assert list(files) == ["SP-00002.intoto.json"], "a case without a result gets no statement"
    said = json.loads(files["SP-00002.intoto.json"])
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert said["predicate"]["result"] == "PASSED"
    content = plans[1].content
    assert said["subject"] == [
        {"name": f"SP-00002/{one.role}.py", "digest": {"sha256": one.sha256}} for one in content.programs
    ]
    assert said["predicate"]["configuration"][0]["digest"] == {"sha256": plans[1].digest}
    for program in plans[1].programs:
        assert (program.sha256 in files["SP-00002.intoto.json"].decode()) == (program.role != "repair")


def test_no_export_holds_a_repair(plans, results):
    repairs = [one for plan in plans for one in plan.programs if one.role == "repair"]
    made = [json_files(plans), bundle_files(plans, GROUPS), jsonl_files(plans, GROUPS), inspect_files(plans)]
    made += [croissant_files(plans, GROUPS, DIGEST, "1"), huggingface_files(plans, GROUPS, DIGEST)]
    everything = b"".join(data for files in (*made, intoto_files(plans, results)) for _, data in files)
    everything += "".join(prompt(plan.content) for plan in plans).encode()
    for one in repairs:
        assert one.sha256.encode() not in everything
    if members_folder() is not None:
        assert b"limit / norm, 12" not in everything


def test_the_prompt_shows_the_case(plans):
    text = prompt(plans[0].content)
    for needed in ("solve(shards, limit)", "norm spans two shards", plans[0].content.contract.text):
        assert needed in text


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("def solve(): ...", "def solve(): ..."),
        ("So:\n```python\na = 1\n```\nand\n```py\nb = 2\n```\n", "b = 2\n"),
        ("```\nc = 3\n```", "c = 3\n"),
    ],
)
def test_code_is_taken_from_an_answer(answer, code):
    assert code_of(answer) == code


@pytest.mark.processes
def test_answers_are_judged_as_map_try_judges(plans):
    passes, said = judged("SP-00001", "```python\ndef solve(shards, limit):\n    return shards\n```", held_back=False)
    assert passes is False
    assert said.startswith("visible checks: ")


def test_an_inspect_task_needs_inspect(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "inspect_ai", None)
    with pytest.raises(InvalidValueError, match=r"shardproof\[inspect\]"):
        repair_task(["SP-00001"])


def test_the_task_file_is_python(plans):
    ((name, data),) = inspect_files(plans)
    assert name == "failure_map.py"
    compile(data, name, "exec")


def test_an_inspect_task_runs():
    inspect_ai = pytest.importorskip("inspect_ai", reason="inspect_ai, which runs tasks, is not installed")
    task = repair_task(["SP-00001"])
    assert isinstance(task, inspect_ai.Task)
    assert [sample.id for sample in task.dataset] == ["SP-00001"]
