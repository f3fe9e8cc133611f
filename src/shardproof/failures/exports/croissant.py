"""Croissant metadata (1.0) beside one data file, so that dataset search and loaders can read the map."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from shardproof.failures.exports.huggingface import COLUMNS, row, rows_text
from shardproof.failures.folders import File
from shardproof.failures.plan import Plan

DATA = "cases.jsonl"
CONTEXT: dict[str, object] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context of Croissant 1.0, as its specification prints it."""


def croissant_files(plans: Sequence[Plan], groups: Mapping[str, str], digest: str, version: str) -> Iterator[File]:
    """croissant.json and cases.jsonl with the columns of the Hugging Face export.

    Args:
        plans: the cases.
        groups: the evaluation group of each mechanism.
        digest: the catalogue's.
        version: shardproof's; schema.org asks for a version of the dataset.
    """
    data = rows_text(row(plan, groups[plan.content.mechanism]) for plan in plans)
    yield DATA, data
    text = json.dumps(metadata(data, len(plans), digest, version), indent=2, allow_nan=False)
    yield "croissant.json", (text + "\n").encode("ascii")


def metadata(data: bytes, cases: int, digest: str, version: str) -> dict[str, object]:
    """The metadata of one data file: its digest, and a field for each column."""
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "failure-map-distributed-gradient-aggregation",
        "description": f"{cases} executable cases of wrong gradient aggregation in distributed training. Cases of one "
        f"evaluation group belong on one side of any split. Catalogue digest {digest}.",
        "license": "https://spdx.org/licenses/Apache-2.0.html",
        "version": version,
        "isLiveDataset": False,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": DATA,
                "name": DATA,
                "contentUrl": DATA,
                "encodingFormat": "application/jsonlines",
                "contentSize": f"{len(data)} B",
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "cases",
                "name": "cases",
                "key": {"@id": "cases/id"},
                "field": [_field(name, text) for name, text in COLUMNS.items()],
            }
        ],
    }


def _field(name: str, text: str) -> dict[str, object]:
    return {
        "@type": "cr:Field",
        "@id": f"cases/{name}",
        "name": name,
        "description": text,
        "dataType": "sc:Integer" if name == "variant" else "sc:Text",
        "source": {"fileObject": {"@id": DATA}, "extract": {"column": name}},
    }
