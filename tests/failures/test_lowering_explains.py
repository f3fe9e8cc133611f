"""Programs as engineers write them, run rank by rank on the audit's layouts: the map has to explain each of them."""

import dataclasses
import functools
import math

import pytest

from shardproof.audit.layouts import LAYOUTS
from shardproof.audit.lowering import cell_of
from shardproof.audit.run import plan_of
from shardproof.failures.dictionary import lowered
from shardproof.failures.lowering import PADDING, Ended

CONTRACTS = ("clip-run", "clip-shards", "clip-groups", "combine-norms")


@functools.cache
def cells():
    plan = plan_of([], [each for each in LAYOUTS.values() if each.world_size <= 4], timeout_s=1)
    pairs = [(layout, fixture) for layout in plan.layouts for fixture in layout.fixtures if fixture.name == "over"]
    return {layout.name: cell_of(layout, fixture) for layout, fixture in pairs}


@functools.cache
def explanations():
    """Layout -> (slug, role, reading) -> prediction; equal arguments are solved once."""
    found = {}
    for name, cell in cells().items():
        found[name], said = {}, {}
        for each in lowered():
            if each.contract not in CONTRACTS:
                continue
            readings = said.setdefault(each.contract, each.readings(cell))
            solved = {}
            for reading, arguments in readings.items():
                if id(arguments) not in solved:
                    solved[id(arguments)] = each.predicted(cell, each.solve(*arguments))
                found[name][each.slug, each.role, reading] = solved[id(arguments)]
    return found


# What the programs are made of. A program returns for each rank the norm it reports and a factor for each piece.


def squares(piece):
    pairs = zip(piece.indices, piece.values or (), strict=False)
    return sum(value * value for index, value in pairs if index != PADDING)


def local(rank):
    return sum(map(squares, rank.pieces))


def along(cell, rank, axes):
    """The ranks of the group of this rank that runs along these axes."""
    return [other for other in cell.ranks if all(other.at[a] == rank.at[a] for a in cell.axes if a not in axes)]


def once(ranks, keep=lambda piece: True):
    """The sum of squares without the slices that an earlier rank holds; a rank counts each of its parameters."""
    total, seen = 0.0, set()
    for rank in ranks:
        kept = [piece for piece in rank.pieces if keep(piece)]
        total += sum(squares(piece) for piece in kept if (piece.tensor, piece.indices) not in seen)
        seen |= {(piece.tensor, piece.indices) for piece in kept}
    return total


def whole(cell):
    """The sum of squares with every logical element counted once."""
    held = (piece for rank in cell.ranks for piece in rank.pieces)
    pairs = (((p.tensor, index), value) for p in held for index, value in zip(p.indices, p.values or (), strict=False))
    return sum(value * value for (_, index), value in dict(pairs).items() if index != PADDING)


def factor(cell, norm):
    return min(1.0, cell.limit / norm) if norm else 1.0


def one_factor(cell, norms, reported=None):
    """Every rank scales all it holds by its norm's factor."""
    shown = reported or norms
    return [(shown[r], [factor(cell, norms[r])] * len(rank.pieces)) for r, rank in enumerate(cell.ranks)]


def per_rank(norm_of):
    return lambda cell: one_factor(cell, [math.sqrt(norm_of(cell, rank)) for rank in cell.ranks])


def summed_over(axes_of):
    return per_rank(lambda cell, rank: sum(map(local, along(cell, rank, axes_of(cell)))))


def data(cell):
    return [axis for axis in cell.axes if axis.startswith(("dp", "cp", "node"))]


def every(cell):
    return list(cell.axes)


def owned(cell, rank, axes, drop=lambda piece: False):
    """Each rank of the group adds the squares of what it owns: copies along the axes count at coordinate 0."""

    def owns(other, piece):
        return all(other.at[axis] == 0 for axis in axes if piece.on[axis] == "replicate") and not drop(piece)

    return sum(squares(p) for other in along(cell, rank, axes) for p in other.pieces if owns(other, p))


def first_names(cell):
    names = {}
    for rank in cell.ranks:
        for piece in rank.pieces:
            names.setdefault(piece.tensor, set()).add(piece.name)
    return names


def tied_dropped(cell):
    names = first_names(cell)
    return per_rank(lambda c, rank: owned(c, rank, every(c), lambda piece: len(names[piece.tensor]) > 1))(cell)


def with_dtensor(plain):
    """DTensors are reduced over the axes they know; plain tensors by `plain`."""

    def norm_of(cell, rank):
        known = sum(
            once(along(cell, rank, told), lambda piece, told=told: piece.told == told)
            for told in {piece.told for piece in rank.pieces if piece.told}
        )
        return known + plain(cell, rank)

    return per_rank(norm_of)


def plain_squares(rank):
    return sum(squares(piece) for piece in rank.pieces if not piece.told)


def of_norms(combine):
    return lambda cell: one_factor(cell, [combine([math.sqrt(local(r)) for r in cell.ranks])] * len(cell.ranks))


def each_slice(cell):
    return [(None, [factor(cell, math.sqrt(squares(piece))) for piece in rank.pieces]) for rank in cell.ranks]


def each_tensor(cell):
    slices = {(p.tensor, p.indices): squares(p) for rank in cell.ranks for p in rank.pieces if p.values is not None}

    def norm_of(piece):
        return math.sqrt(sum(square for (tensor, _), square in slices.items() if tensor == piece.tensor))

    return [(None, [factor(cell, norm_of(piece)) for piece in rank.pieces]) for rank in cell.ranks]


def whole_norms(cell):
    return [math.sqrt(whole(cell))] * len(cell.ranks)


def local_norms(cell):
    return [math.sqrt(local(rank)) for rank in cell.ranks]


def dropped_on_tensor_ranks(cell):
    """Megatron's filter where the mark is missing: only rank 0 of the tensor group counts what is not marked."""

    def counts(at, piece):
        return at.get("tp", 0) == 0 or ("tp" in piece.told and piece.on["tp"] == "shard")

    slices = {
        (p.tensor, p.indices): squares(p) for rank in cell.ranks for p in rank.pieces if counts(rank.at, p) and p.values
    }
    norm = math.sqrt(sum(slices.values()))
    return one_factor(cell, [norm] * len(cell.ranks))


def mesh_norms_added(cell):
    """torchtitan's way of DTensors on several meshes, with a sum where squares have to be added."""
    slices = {(p.told, p.tensor, p.indices): squares(p) for rank in cell.ranks for p in rank.pieces}
    of_mesh = {}
    for (told, _, _), square in slices.items():
        of_mesh[told] = of_mesh.get(told, 0.0) + square
    return one_factor(cell, [sum(map(math.sqrt, of_mesh.values()))] * len(cell.ranks))


PROGRAMS = {
    "norms of each mesh's tensors added": mesh_norms_added,
    "each rank clips by its local norm": summed_over(lambda cell: []),
    "local squares summed over the world, copies too": summed_over(every),
    "local squares summed over the data axes": summed_over(data),
    "local squares summed over the innermost axis": summed_over(lambda cell: every(cell)[-1:]),
    "local squares summed over every axis but the innermost": summed_over(lambda cell: every(cell)[:-1]),
    "local squares summed over tp": summed_over(lambda cell: ["tp"]),
    "local squares summed over every axis but pp": summed_over(lambda c: [a for a in c.axes if a != "pp"]),
    "each once over every axis but the outermost": per_rank(lambda c, r: once(along(c, r, every(c)[1:]))),
    "each once over the data axes": per_rank(lambda c, r: once(along(c, r, data(c)))),
    "each once over every axis but pp": per_rank(lambda c, r: once(along(c, r, [a for a in c.axes if a != "pp"]))),
    "norms summed over the world": of_norms(sum),
    "norms averaged over the world": of_norms(lambda norms: sum(norms) / len(norms)),
    "largest norm of the world": of_norms(max),
    "squares averaged over the world": per_rank(lambda c, r: sum(map(local, c.ranks)) / len(c.ranks)),
    "each tensor clipped by its own norm": each_tensor,
    "each local slice clipped by its own norm": each_slice,
    "clipped by the local norm, the global norm reported": lambda c: one_factor(c, local_norms(c), whole_norms(c)),
    "clipped by the global norm, the local norm reported": lambda c: one_factor(c, whole_norms(c), local_norms(c)),
    "averaged local norm reported": lambda c: one_factor(
        c, whole_norms(c), [sum(local_norms(c)) / len(c.ranks)] * len(c.ranks)
    ),
    "a complete sum of squares summed again over the world": per_rank(lambda c, r: len(c.ranks) * whole(c)),
    "tied tensors counted for each name": per_rank(lambda c, r: owned(c, r, every(c))),
    "tied tensors left out": tied_dropped,
    "DTensors reduced, plain tensors local": with_dtensor(lambda cell, rank: plain_squares(rank)),
    "DTensors reduced, all summed over pp": per_rank(
        lambda c, r: sum(once(along(c, r, every_but(c, "pp")), lambda p: True) for r in along(c, r, ["pp"]))
    ),
    "only tensor rank 0 counts plain tensors": dropped_on_tensor_ranks,
}


def every_but(cell, axis):
    return [each for each in cell.axes if each != axis]


def ran(cell, program):
    return [
        Ended(norm=norm, values=tuple(scaled(piece, by) for piece, by in zip(rank.pieces, factors, strict=True)))
        for rank, (norm, factors) in zip(cell.ranks, program(cell), strict=True)
    ]


def scaled(piece, by):
    if piece.values is None:
        return None
    return tuple(v if index == PADDING else v * by for index, v in zip(piece.indices, piece.values, strict=True))


def agree(seen, said):
    """Whether a prediction says nothing else than what was seen; of a norm one of them may say nothing."""
    return all(
        (None in (a.norm, b.norm) or math.isclose(a.norm, b.norm, rel_tol=1e-7)) and all(map(alike, a.values, b.values))
        for a, b in zip(seen, said, strict=True)
    )


def alike(left, right):
    if left is None or right is None:
        return left is right
    return all(math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-9) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_mistake_of_the_map_explains_a_program_under_every_layout(program):
    left = {key for each in explanations().values() for key in each}
    for name, cell in cells().items():
        seen, said = ran(cell, PROGRAMS[program]), explanations()[name]
        if [each.norm for each in seen] == whole_norms(cell):
            # As in a diagnosis: where the norm is right, what a mistake in the scaling would report is no matter.
            seen = [dataclasses.replace(each, norm=None) for each in seen]
        spoken = {slug for slug, _, _ in said}
        # A contract that cannot express a layout says nothing about it, for or against.
        left = {key for key in left if (key in said and agree(seen, said[key])) or key[0] not in spoken}
        assert left, f"nothing explains it on {name} and the layouts before"
    assert any(key in explanations()["hand-sharded"] for key in left)
