"""What the process of a jax cell does: make the devices, lay the gradients on them, call the subject.

Every parameter is an array with one row for each device, cut over all mesh axes at once: inside shard_map each device
sees its own row. A `whole` subject gets each logical tensor as one array with a NamedSharding instead.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardproof.audit.jax_context import JaxContext
from shardproof.audit.layouts import Layout, Share, shares, tied
from shardproof.audit.observing import last_lines, summary
from shardproof.audit.ranks.channel import Message, receive, send
from shardproof.audit.ranks.entry import Setup
from shardproof.audit.ranks.jax_whole import laid_whole, whole_specs
from shardproof.audit.subjects import Loaded, load, outside
from shardproof.records.audit import Call, FixturePlan, Piece, Returned, Slice

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RANK = "rank"
Arrays = dict[str, Any]


class OutsideError(Exception):
    """The layout cannot be laid on devices of one program."""


@dataclass(frozen=True)
class Devices:
    """The layout on simulated devices; shapes: of each parameter's row, the same on every device."""

    layout: Layout
    mesh: Any
    held: tuple[dict[str, Share], ...]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]


def serve(setup: Setup, commands: Connection, results: Connection) -> None:
    """Be all ranks of the layout until the harness ends this process."""
    from shardproof.audit.ranks.worker import die_with_harness

    die_with_harness(commands.fileno())

    def say(message: Message) -> None:
        send(results.fileno(), message)

    try:
        devices = _devices(setup.layout)
        say(Message("built", [[piece.model_dump(mode="json") for piece in rank] for rank in _pieces(devices)]))
    except OutsideError as error:
        say(Message("outside", str(error)))
    except ImportError as error:
        say(Message("unavailable", f"{summary(error)}: pip install 'jax[cpu]'"))
    except Exception as error:
        say(Message("broken", last_lines(error)))
    else:
        _work(setup, devices, commands.fileno(), say)
    signal.pause()


def _work(setup: Setup, devices: Devices, commands: int, say: Callable[[Message], None]) -> None:
    try:
        loaded = load(setup.spec)
        reason = outside(loaded.capabilities, setup.layout, setup.norm_type)
        reason = reason or (whole_specs(setup.layout)[1] if loaded.whole else None)
        if reason:
            say(Message("outside", reason))
            return
        if loaded.build is not None:
            loaded.build(_context(devices, float("inf"), setup.norm_type))
    except BaseException as error:
        say(Message("import failed", last_lines(error)))
        return
    say(Message("loaded"))
    while command := receive(commands):
        fixture = FixturePlan.model_validate(command.body)
        say(Message("stage", "in the call"))
        calls = _call(devices, loaded, fixture)
        say(Message("called", [call.model_dump(mode="json") for call in calls]))


def _devices(layout: Layout) -> Devices:
    world = layout.world_size
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={world}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np

    held = tuple({share.entry: share for share in shares(layout, rank)} for rank in range(world))
    each = [(name, share) for rank in held for name, share in rank.items()]
    if any(share.tensor.dtype == "float64" for _, share in each):
        jax.config.update("jax_enable_x64", True)
    axes = dict(layout.axes) or {RANK: 1}
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:world]).reshape(tuple(axes.values())), tuple(axes))
    shapes = {name: _shape([rank[name] for rank in held if name in rank], world) for name, _ in each}
    for name in shapes:
        listed = [rank[name] for rank in held if name in rank]
        if len({(str(dict(one.placements)), one.tensor.dtype) for one in listed}) > 1:
            raise OutsideError(f"{name} lies in different ways on different ranks; jax traces one program for all")
    return Devices(layout, mesh, held, shapes, {name: share.tensor.dtype for name, share in each})


def _shape(listed: list[Share], world: int) -> tuple[int, ...]:
    """The one shape that every device's row has: the slices' own where they agree, else the longest, flat."""
    own = {share.shape for share in listed}
    longest = max(len(share.indices) + share.padding for share in listed)
    return own.pop() if len(own) == 1 and len(listed) == world and not listed[0].padding else (longest,)


def _pieces(devices: Devices) -> list[list[Piece]]:
    """What each device was seen to hold: arrays of element numbers are laid out and read back from the devices."""
    _add_up(devices)
    numbered = {
        share.tensor.name: tuple(float(index + 1) for index in range(_numel(share)))
        for rank in devices.held
        for share in rank.values()
    }
    plan = FixturePlan(name="numbers", title="", limit=0.0, gradients=numbered)
    rows = _laid(devices, plan, dtype="float32")
    return [
        [
            Piece(
                entry=name,
                tensor=share.tensor.name,
                kind="Array",
                indices=tuple(int(value) - 1 for value in _row(rows[name], rank)[: len(share.indices)]),
                padding=share.padding,
            )
            for name, share in held.items()
        ]
        for rank, held in enumerate(devices.held)
    ]


def _numel(share: Share) -> int:
    count = 1
    for size in share.tensor.shape:
        count *= size
    return count


def _add_up(devices: Devices) -> None:
    """Use every axis once, so that broken devices show here and not on a subject."""
    import jax
    import jax.numpy as jnp

    spec = _rows(devices)
    ones = jax.device_put(jnp.ones(devices.layout.world_size), jax.sharding.NamedSharding(devices.mesh, spec))
    axes = tuple(devices.mesh.axis_names)
    summed = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, axes), mesh=devices.mesh, in_specs=spec, out_specs=spec))
    if [float(each) for each in summed(ones)] != [devices.layout.world_size] * devices.layout.world_size:
        raise RuntimeError("Expected a sum of ones over the devices, got another number.")


def _rows(devices: Devices) -> Any:
    from jax.sharding import PartitionSpec

    return PartitionSpec(tuple(devices.mesh.axis_names))


def _laid(devices: Devices, fixture: FixturePlan, dtype: str | None = None) -> Arrays:
    """Each parameter with one row for each device; zeros where a device holds nothing."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    found = {}
    for name, shape in devices.shapes.items():
        length = int(np.prod(shape, dtype=np.int64))
        rows = np.zeros((devices.layout.world_size, length))
        for rank, held in enumerate(devices.held):
            if name in held and rank not in fixture.absent.get(held[name].tensor.name, ()):
                share, whole = held[name], fixture.gradients[held[name].tensor.name]
                values = [*(whole[index] for index in share.indices), *[share.tensor.stale] * share.padding]
                rows[rank, : len(values)] = values
        array = jnp.asarray(rows.reshape(-1, *shape)).astype(dtype or devices.dtypes[name])
        found[name] = jax.device_put(array, jax.sharding.NamedSharding(devices.mesh, _rows(devices)))
    return found


def _row(array: Any, rank: int) -> list[float]:
    """What one device holds, in the order of the mesh's devices."""
    import numpy as np

    shard = next(each for each in array.addressable_shards if each.index[0].start in (rank, None))
    return [float(value) for value in np.asarray(shard.data.astype("float64" if _wide(array) else "float32")).ravel()]


def _wide(array: Any) -> bool:
    return str(array.dtype) == "float64"


def _call(devices: Devices, loaded: Loaded, fixture: FixturePlan) -> list[Call]:
    try:
        if loaded.whole:
            before, after, norms = laid_whole(devices, loaded.clip, fixture, _context)
        else:
            before, after, norms = _mapped(devices, loaded.clip, fixture)
    except BaseException as error:
        rows = [
            tuple(_seen(devices, fixture, rank, name, None) for name in devices.held[rank]) for rank in _all(devices)
        ]
        return [
            Call(
                fixture=fixture.name,
                outcome="raised",
                stage="in the call",
                error=summary(error),
                traceback=last_lines(error),
                slices=slices,
            )
            for slices in rows
        ]
    return [
        Call(
            fixture=fixture.name,
            outcome="returned",
            stage="done",
            returned=Returned(type="Array", number=norms[rank]),
            slices=tuple(
                _seen(devices, fixture, rank, name, after[rank].get(name), before[rank].get(name))
                for name in devices.held[rank]
            ),
        )
        for rank in _all(devices)
    ]


def _all(devices: Devices) -> range:
    return range(devices.layout.world_size)


Rows = list[dict[str, list[float]]]


def _mapped(devices: Devices, clip: Any, fixture: FixturePlan) -> tuple[Rows, Rows, list[float]]:
    """The call inside jit and shard_map; rows before and after by device, and each device's norm."""
    import jax
    import jax.numpy as jnp

    given = _laid(devices, fixture)
    context = _context(devices, fixture.limit, fixture.norm_type)

    def one_device(rows: Arrays) -> tuple[Arrays, Any]:
        clipped, norm = clip({name: row[0] for name, row in rows.items()}, fixture.limit, context)
        kept = {
            name: clipped[name][None]
            for name, row in rows.items()
            if name in clipped and (clipped[name].shape, clipped[name].dtype) == (row.shape[1:], row.dtype)
        }
        return kept, jnp.reshape(norm, (1,))

    spec = _rows(devices)
    run = jax.jit(
        jax.shard_map(one_device, mesh=devices.mesh, in_specs=(spec,), out_specs=(spec, spec), check_vma=False)
    )
    after, norms = run(given)
    rows = [{name: _row(array, rank) for name, array in after.items()} for rank in _all(devices)]
    before = [{name: _row(array, rank) for name, array in given.items()} for rank in _all(devices)]
    return before, rows, [_row(norms, rank)[0] for rank in _all(devices)]


def _seen(
    devices: Devices,
    fixture: FixturePlan,
    rank: int,
    name: str,
    after: list[float] | None,
    before: list[float] | None = None,
) -> Slice:
    share = devices.held[rank][name]
    count = len(share.indices)
    if rank in fixture.absent.get(share.tensor.name, ()):
        grown = after is not None and any(value != 0 for value in after)
        problem = "a gradient of zeros became another" if grown else None
        return Slice(before=(), after=None, kind="Array", same_object=True, problem=problem)
    whole = fixture.gradients[share.tensor.name]
    given = tuple(whole[index] for index in share.indices) if before is None else tuple(before[:count])
    if after is None:
        problem = "no gradient of the same shape and dtype came back"
        return Slice(before=given, after=None, kind="Array", same_object=True, problem=problem)
    return Slice(before=given, after=tuple(after[:count]), kind="Array", same_object=True, padding=tuple(after[count:]))


def _context(devices: Devices, limit: float, norm_type: float) -> JaxContext:
    axes = dict(devices.layout.axes) or {RANK: 1}
    first = {name: share for held in reversed(devices.held) for name, share in held.items()}
    flat = [name for name, share in first.items() if share.owned is not None]
    return JaxContext(
        layout=devices.layout.name,
        world_size=devices.layout.world_size,
        axes=axes,
        mesh=devices.mesh,
        names=tuple(devices.shapes),
        placements={name: dict(first[name].placements) or {RANK: "replicate"} for name in devices.shapes},
        tied=tied(devices.layout),
        owned={
            name: tuple((held[name].owned or (0, 0, 0)) if name in held else (0, 0, 0) for held in devices.held)
            for name in flat
        },
        limit=limit,
        norm_type=norm_type,
    )
