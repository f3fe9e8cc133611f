"""What `audit export` tells a job of the user's own about one layout, and what the job writes back for each rank."""

from __future__ import annotations

from typing import Literal

from shardproof.records.audit import Number, PlacementKind, Record


class JobParameter(Record):
    """One parameter of one rank; see the attributes of the same names of a subject's context.

    shape: of the local part; of a padded flat buffer, padding included. tensor_shape: of the whole tensor.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    tensor_shape: tuple[int, ...]
    placements: dict[str, PlacementKind]
    owned: tuple[int, int, int] | None = None


class JobRank(Record):
    """One rank, and where it lies: axis -> coordinate."""

    rank: int
    at: dict[str, int]
    parameters: tuple[JobParameter, ...]


class JobCall(Record):
    """One call: clip the gradients in the folder `name` to `limit`."""

    name: str
    limit: Number
    norm_type: Number


class Job(Record):
    """job.json: one layout with its calls, in the order in which they are to be made."""

    schema_version: Literal["shardproof.job/1"] = "shardproof.job/1"
    layout: str
    title: str
    world_size: int
    axes: dict[str, int]
    tied: tuple[tuple[str, ...], ...]
    calls: tuple[JobCall, ...]
    ranks: tuple[JobRank, ...]
