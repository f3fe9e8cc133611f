"""JSON Schema of what authors write and of what is stored, published in docs/schema.

`python -m shardproof.failures.schema docs/schema` writes them again; a test holds them equal to the code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from shardproof.records.map import (
    CaseContent,
    CaseEntry,
    CaseResult,
    ContractFile,
    MapSummary,
    MatrixRecord,
    MechanismFile,
)
from shardproof.records.map_share import (
    GroupsRecord,
    ImportedCase,
    LeakRecord,
    MemberCase,
    OpenCase,
    Split,
    SplitCheck,
    TierRecord,
    TryRecord,
)
from shardproof.records.map_site import SiteCase, SiteIndex

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PUBLISHED: dict[str, type[BaseModel]] = {
    "contract.schema.json": ContractFile,
    "mechanism.schema.json": MechanismFile,
    "case-entry.schema.json": CaseEntry,
    "case.schema.json": CaseContent,
    "case-result.schema.json": CaseResult,
    "map-summary.schema.json": MapSummary,
    "map-matrix.schema.json": MatrixRecord,
    "map-groups.schema.json": GroupsRecord,
    "map-split.schema.json": Split,
    "map-split-check.schema.json": SplitCheck,
    "map-try.schema.json": TryRecord,
    "map-tier.schema.json": TierRecord,
    "open-case.schema.json": OpenCase,
    "member-case.schema.json": MemberCase,
    "leak-check.schema.json": LeakRecord,
    "imported-case.schema.json": ImportedCase,
    "map-site.schema.json": SiteIndex,
    "map-site-case.schema.json": SiteCase,
}


def schemas() -> dict[str, str]:
    """The text of each published schema, by file name."""
    found = {}
    for name, model in PUBLISHED.items():
        schema = {"$schema": DIALECT, **model.model_json_schema(by_alias=True)}
        found[name] = json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
    return found


def main(folder: Path) -> None:
    """Write the schemas into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
