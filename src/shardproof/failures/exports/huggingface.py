"""A dataset folder for the Hugging Face hub: a card, and rows of text columns, one file for each side of a split."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shardproof.failures.folders import File
from shardproof.failures.plan import Plan
from shardproof.records.map_share import Split

COLUMNS = {
    "id": "the case's id",
    "digest": "the case digest: SHA-256 over the case as canonical JSON",
    "mechanism": "the mechanism's slug",
    "variant": "the variant number, an integer",
    "family": "the family of mechanisms",
    "evaluation_group": "what stays on one side of any split",
    "title": "what goes wrong, in a sentence",
    "contract": "what solve is asked to do",
    "solve": "the signature",
    "root_cause": "why the failing program is wrong",
    "unsuccessful_approach": "what was tried, and why it does not mend it",
    "why_it_matters": "the consequence in training",
    "scope": "what is represented and what is not",
    "failing": "the failing program, self-contained",
    "unsuccessful": "the unsuccessful fix, self-contained",
    "checks": "the visible checks as JSON: label, arguments, expected; inf and nan are strings",
    "references": "public reports as JSON",
}
CARD = """---
pretty_name: Failure Map of distributed gradient aggregation
license: apache-2.0
language:
- en
tags:
- code
- program-repair
- distributed-training
configs:
- config_name: default
  data_files:
{files}---

# Failure Map of distributed gradient aggregation

{count} cases of {mechanisms} mechanisms. Each case has a contract, a program that breaks it, a fix that does not mend
it, and the checks that show both. The repairs are held back.

The column `checks` is JSON in text, since arguments differ in shape from contract to contract.

Cases of one `evaluation_group` belong on one side of any split: a solution of one gives others away.{split}

Catalogue digest: `{digest}`
"""
SPLIT = """
This folder has a split by whole groups: fraction {met:.3f} of the cases in test, seed {seed}, level {level}."""


def row(plan: Plan, group: str) -> dict[str, object]:
    """One case as flat columns; see `COLUMNS`."""
    case = plan.content
    programs = {one.role: one.source for one in case.programs}
    texts = case.model_dump(
        include={"id", "mechanism", "variant", "family", "title", "root_cause", "unsuccessful_approach"}
        | {"why_it_matters", "scope"}
    )
    found = texts | {
        "digest": plan.digest,
        "evaluation_group": group,
        "contract": case.contract.text,
        "solve": case.contract.solve,
        "failing": programs["failing"],
        "unsuccessful": programs["unsuccessful"],
        "checks": json.dumps([one.model_dump(mode="json") for one in case.checks], allow_nan=False),
        "references": json.dumps([one.model_dump(mode="json") for one in case.references]),
    }
    return {name: found[name] for name in COLUMNS}


def rows_text(rows: Iterable[Mapping[str, object]]) -> bytes:
    """Rows as JSONL in ASCII."""
    return "".join(f"{json.dumps(one, allow_nan=False)}\n" for one in rows).encode("ascii")


def huggingface_files(
    plans: Sequence[Plan], groups: Mapping[str, str], digest: str, split: Split | None = None
) -> Iterator[File]:
    """README.md and data/*.jsonl; two data files with a split, one named `cases` without.

    Args:
        plans: the cases.
        groups: the evaluation group of each mechanism.
        digest: the catalogue's.
        split: a split of these cases that `check_split` accepts; cases that it keeps out are left out.
    """
    sides = {"cases": None} if split is None else {"train": set(split.train), "test": set(split.test)}
    names = "".join(f"  - split: {side}\n    path: data/{side}.jsonl\n" for side in sides)
    said = "" if split is None else SPLIT.format(met=split.fraction_met, seed=split.seed, level=split.level)
    chosen = [plan for plan in plans if any(ids is None or plan.content.id in ids for ids in sides.values())]
    mechanisms = len({plan.content.mechanism for plan in chosen})
    card = CARD.format(files=names, count=len(chosen), mechanisms=mechanisms, split=said, digest=digest)
    yield "README.md", card.encode("ascii")
    for side, ids in sides.items():
        of = [plan for plan in chosen if ids is None or plan.content.id in ids]
        yield f"data/{side}.jsonl", rows_text(row(plan, groups[plan.content.mechanism]) for plan in of)
