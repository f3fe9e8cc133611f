"""What planning costs one rank of a run of up to 16,384 ranks: CPU time, and the bytes that each rank receives.

The plan's own code runs as on one rank of that run; what the other ranks would send is made from the model beforehand
and handed in where the process group would deliver it. No network is timed. Run from the repository's root:

    python -m benchmarks.scale
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from benchmarks.machine import machine, write
from tests.layout.transformer import mesh_of, transformer

from shardproof.layout import Listed, Mesh, Slice, claim, coverage, prove
from shardproof.torch import catalog as planning
from shardproof.torch.packet import Packet, encode
from shardproof.torch.reading import Read
from shardproof.torch.world import World

SIZES = (
    {"dp": 4, "pp": 4, "tp": 2, "ep": 2},
    {"dp": 16, "pp": 8, "tp": 4, "ep": 2},
    {"dp": 64, "pp": 16, "tp": 8, "ep": 2},
)
REPEATS = 5
WORD = 8


@dataclass(frozen=True)
class Cost:
    """One run: its ranks and tensors, CPU seconds, and bytes received by each rank.

    `prove_seconds`: the pure model, all ranks in one process. `plan_seconds`: one rank's plan, the slower of the first
    and the last rank. `digests`, `lists`, `coverage`: bytes received while a plan is built. `clip`: each step's packet.
    """

    ranks: int
    axes: Mapping[str, int]
    tensors: int
    kinds_of_list: int
    prove_seconds: float
    plan_seconds: float
    digests: int
    lists: int
    coverage: int
    clip: int


@dataclass
class Wire:
    """Stands where the process group would: delivers what the other ranks say, and counts the bytes that arrive.

    `digests`: each rank's, pickled. `lists`: place of the rank that sends it -> pickled list. `summed`: coverage.
    """

    digests: Sequence[bytes]
    lists: Mapping[int, bytes]
    summed: torch.Tensor
    received: dict[str, int] = field(default_factory=lambda: {"digests": 0, "lists": 0, "coverage": 0})

    def gather(self, here: World, said: object) -> list[Any]:
        """Every rank's answer, unpickled one by one: that it passed no mapping of groups, then its digest."""
        answers = [pickle.dumps(None)] * here.size if said is None else self.digests
        self.received["digests"] += here.size * (WORD + max(map(len, answers)))
        return [pickle.loads(each) for each in answers]

    def broadcast(self, here: World, said: object, place: int) -> Any:
        """The list of the rank at this place."""
        del here, said
        self.received["lists"] += WORD + len(self.lists[place])
        return pickle.loads(self.lists[place])

    def add_up(self, here: World, words: torch.Tensor) -> torch.Tensor:
        """What all ranks claim; a ring moves about twice as much."""
        del here
        self.received["coverage"] += WORD * words.numel()
        return self.summed.clone()


def wire(mesh: Mesh, lists: Mapping[int, Sequence[Listed]]) -> Wire:
    """What the ranks of a run send: equal on all ranks of one stage and expert position, as the lists are."""
    axes = [mesh.axes.index("pp"), mesh.axes.index("ep")]
    places: dict[tuple[int, ...], list[int]] = {}
    for place, rank in enumerate(mesh.ranks):
        places.setdefault(tuple(mesh.coordinates(rank)[axis] for axis in axes), []).append(place)
    digests, sent, known = [b""] * len(mesh.ranks), {}, {}
    for each in places.values():
        rank = mesh.ranks[each[0]]
        lines = planning._lines([Read(listed) for listed in lists[rank]], rank)
        known.update({line.identity: line.shape for line in lines})
        sent[each[0]] = pickle.dumps(lines)
        for place in each:
            digests[place] = pickle.dumps(planning._digest(lines))
    # That the claims of all ranks add up to those of whole tensors is what `prove` has shown before.
    wholes = [claim(str(identity), Slice.whole(known[identity])) for identity in sorted(known, key=str)]
    rows = [planning._row(each, False) for each in wholes]
    return Wire(digests, sent, torch.tensor(rows, dtype=torch.int64))


def cold_seconds(call: Callable[[], object]) -> float:
    """CPU seconds with no weight remembered, as in a process that has not planned before."""
    coverage._prefix.cache_clear()
    return cpu_seconds(call)


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    start = time.process_time()
    call()
    return time.process_time() - start


def plan_on(rank: int, mesh: Mesh, lists: Mapping[int, Sequence[Listed]], network: Wire) -> planning.Catalog:
    """What a rank does to build its plan."""
    here = World(mesh.ranks, rank, None, torch.device("cpu"))
    with patch.multiple(planning, gather=network.gather, broadcast=network.broadcast, add_up=network.add_up):
        # None: the mesh is a DeviceMesh, of which nothing has to be told; each tensor brings its axes here.
        return planning.catalog(here, None, lambda _: [Read(listed) for listed in lists[rank]])


def measure(sizes: Mapping[str, int]) -> Cost:
    """Prove a run, then plan it on its first and last rank."""
    mesh = mesh_of(**sizes)
    lists = transformer(mesh)
    proving = cold_seconds(lambda: checked(prove(lists)))
    network = wire(mesh, lists)
    ranks = (mesh.ranks[0], mesh.ranks[-1])
    times = [
        median(cold_seconds(lambda rank=rank: plan_on(rank, mesh, lists, network)) for _ in range(REPEATS))
        for rank in ranks
    ]
    network.received.update(dict.fromkeys(network.received, 0))
    found = plan_on(ranks[-1], mesh, lists, network)
    packet = encode(Packet(0), len(mesh.ranks))
    return Cost(
        ranks=len(mesh.ranks),
        axes=dict(sizes),
        tensors=len(found.lines),
        kinds_of_list=len(network.lists),
        prove_seconds=round(proving, 3),
        plan_seconds=round(max(times), 4),
        clip=WORD * packet.numel(),
        **network.received,
    )


def checked(gaps: Sequence[object]) -> None:
    if gaps:
        raise RuntimeError(f"The model that is measured is not covered: {gaps[:3]}.")


def table(costs: Sequence[Cost]) -> str:
    """The costs as a table for people."""
    titles = ("ranks", "tensors", "prove all, s", "plan one rank, s", "plan, KiB received", "each clip, KiB")
    rows = [
        (
            f"{each.ranks:,}",
            f"{each.tensors:,}",
            f"{each.prove_seconds:.2f}",
            f"{each.plan_seconds:.3f}",
            f"{(each.digests + each.lists + each.coverage) / 1024:,.1f}",
            f"{each.clip / 1024:.1f}",
        )
        for each in costs
    ]
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (titles, *rows)
    )


def main() -> None:
    """Measure, print, and write the numbers to a file."""
    torch.set_num_threads(1)
    costs = [measure(sizes) for sizes in SIZES]
    where, command = machine(), "python -m benchmarks.scale"
    print(table(costs))
    print(f"CPU time, median of {REPEATS}; bytes of results, of which a ring all-reduce moves about twice the sums.")
    print(", ".join(f"{key} {value}" for key, value in where.items()) + f"; {command}")
    target = write("scale", command, {"costs": list(map(asdict, costs))})
    print(f"written to {target.relative_to(Path.cwd())}", file=sys.stderr)


if __name__ == "__main__":
    main()
