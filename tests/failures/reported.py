"""Numbers that public reports on replica synchronisation and scale state, as arguments of our contracts."""

NOTHING = None


def sync(rule, *chunks, axis="tp", bypass=(), **more):
    groups = {axis: [list(range(len(chunks[0])))]}
    parameter = {"over": {axis: rule}, "bypass": {axis: list(bypass)}}
    held = [[{"w": row} for row in chunk] for chunk in chunks]
    return {"groups": groups, "parameters": {"w": parameter}, "chunks": held} | more


def grouped(groups, rows, late=False, **more):
    parameter = {"over": dict.fromkeys(groups, "mean"), "late": late}
    return {"groups": groups, "parameters": {"w": parameter}, "chunks": [[{"w": row} for row in rows]]} | more


def each(*rows):
    return [{"w": row} for row in rows]


def tied(offsets, *copies, **more):
    held = [{"grads": grads, "offset": offset} for grads, offset in zip(copies, offsets, strict=True)]
    return {"tied": True, "shard": 1, "copies": held} | more


def window(*batches, **more):
    return {"micro_batches": list(batches)} | more


def ranks(*micro, loss="tokens", averages=None, path="plain", **more):
    held = [[{"sum": values, "tokens": tokens} for values, tokens in rank] for rank in micro]
    averages = {"dp": len(held)} if averages is None else averages
    return {"ranks": held, "loss": loss, "wrapper": "engine", "averages": averages, "path": path} | more


def gathered(rows, gather, reduce, wrapper="engine", **more):
    return {"backward": rows, "gather": gather, "reduce": reduce, "wrapper": wrapper} | more


def experts(data, *partials):
    return {"data": data, "experts": {"e": list(partials)}, "dense": {}}


def term(parts, multiplied, divide=1, **lies):
    return {"lies": lies, "parts": [[part] for part in parts], "multiplied": multiplied, "divide": divide}


def axes(sizes, **terms):
    return {"axes": sizes, "terms": terms}


def only(key, *path):
    """Take one entry of a result, since a report states no more than that."""

    def take(result):
        for step in (key, *path):
            result = result[step]
        return result

    return take


def all_of(result):
    return result


def grads_of(result):
    return [held["grads"] for held in result]


GRAD = only("grad")
TWO_EACH = [[([1], 1), ([3], 1)], [([2], 1), ([2], 1)], [([0], 1), ([4], 1)], [([1], 1), ([3], 1)]]
SIX_EIGHT = [[([6, 8], 1)] for _ in range(4)]
UNUSED = {"weights": {"w": [10.0]}, "decay": 0.1, "lr": 1.0}
# slug, where it was reported, the arguments, what the report speaks of, and what is right, failing and unsuccessful;
# NOTHING: the report says nothing that this program must show.
REPORTS = [
    (
        "partial-replica-grad-unsummed",
        "NVIDIA/Megatron-LM/issues/1446",
        sync("sum", [[1.0, 2.0], [3.0, -2.0]]),
        all_of,
        each([4, 0], [4, 0]),
        each([1, 2], [3, -2]),
        NOTHING,
    ),
    (
        "partial-replica-grad-unsummed",
        "NVIDIA-NeMo/RL/issues/3716",
        sync("sum", [[1.0, 0.0], [0.0, 2.0]]),
        all_of,
        each([1, 2], [1, 2]),
        each([1, 0], [0, 2]),
        NOTHING,
    ),
    (
        "partial-replica-grad-unsummed",
        "modelscope/mcore-bridge/pull/173",
        sync("sum", [[0.0], [5.0]], lr=0.1),
        all_of,
        each([-0.5], [-0.5]),
        each([0], [-0.5]),
        NOTHING,
    ),
    (
        "partial-replica-grad-unsummed",
        "NVIDIA/Megatron-LM/issues/7452",
        sync("sum", [[0.12, 0.04], [0.0197, -0.0077]]),
        all_of,
        each([0.1397, 0.0323], [0.1397, 0.0323]),
        each([0.12, 0.04], [0.0197, -0.0077]),
        NOTHING,
    ),
    (
        "complete-grad-summed-twice",
        "inclusionAI/AReno/pull/496",
        sync("complete", [[4.0, 1.0], [4.0, 2.0]], bypass=[1]),
        all_of,
        each([4, 3], [4, 3]),
        each([8, 3], [8, 3]),
        each([4, 1], [4, 2]),
    ),
    (
        "complete-grad-summed-twice",
        "modelscope/mcore-bridge/pull/101",
        sync("complete", [[1.5, -0.5]] * 4),
        all_of,
        each(*[[1.5, -0.5]] * 4),
        each(*[[6, -2]] * 4),
        NOTHING,
    ),
    (
        "complete-grad-summed-twice",
        "NVIDIA-NeMo/RL/pull/3660",
        sync("sum", [[1.0], [3.0]], [[2.0], [2.0]], axis="dp"),
        all_of,
        each([8], [8]),
        each([12], [12]),
        NOTHING,
    ),
    (
        "wrong-sync-group",
        "ByteDance-Seed/VeOmni/pull/1115",
        grouped({"dp": [[0], [1], [2], [3]], "sp": [[0, 1, 2, 3]]}, [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 2.0]]),
        all_of,
        each(*[[0.75, 0.75]] * 4),
        each([1, 0], [0, 1], [2, 0], [0, 2]),
        NOTHING,
    ),
    (
        "wrong-sync-group",
        "huggingface/transformers/pull/48792",
        grouped({"dp": [[0, 1]]}, [[2.0], [6.0]], late=True, lr=0.1),
        all_of,
        each([-0.4], [-0.4]),
        each([-0.2], [-0.6]),
        NOTHING,
    ),
    (
        "tied-gradient-merge-order",
        "NVIDIA/Megatron-LM/issues/844",
        tied([1, 0], [[1.0], [3.0]], [[5.0], [11.0]]),
        only(0),
        [[10], [10]],
        [[9], [13]],
        NOTHING,
    ),
    (
        "tied-gradient-merge-order",
        "paiml/entrenar/issues/314",
        tied([0, 0], [[3.0]], [[-1.0]], lr=0.1, optimizer="adam"),
        only("updates"),
        [[-0.1], [-0.1]],
        NOTHING,
        [[-0.1], [0.1]],
    ),
    (
        "locally-unused-params",
        "pytorch/pytorch/issues/69031",
        window(
            [{"a": [2.0], "b": [1.0]}, {"a": [6.0], "b": [5.0]}], [{"a": None, "b": [3.0]}, {"a": None, "b": [3.0]}]
        ),
        grads_of,
        [{"a": [4], "b": [6]}, {"a": [4], "b": [6]}],
        [{"a": [2], "b": [6]}, {"a": [6], "b": [6]}],
        NOTHING,
    ),
    (
        "locally-unused-params",
        "pytorch/pytorch/pull/28883",
        window([{"w": None}, {"w": None}], **UNUSED),
        only(0, "weights", "w"),
        [10],
        [9],
        NOTHING,
    ),
    (
        "locally-unused-params",
        "pytorch/pytorch/pull/28883",
        window([{"w": None}, {"w": [4.0]}]),
        grads_of,
        [{"w": [2]}, {"w": [2]}],
        NOTHING,
        [{"w": None}, {"w": [2]}],
    ),
    (
        "world-size-divided-twice",
        "meta-pytorch/torchtune/pull/2172",
        ranks([([4.0], 2)], [([8.0], 4)], [([0.0], 0)], [([4.0], 2)]),
        GRAD,
        [2],
        [0.5],
        NOTHING,
    ),
    (
        "world-size-divided-twice",
        "Snowflake-AI-Research/Arctic-Platform/pull/119",
        ranks(*SIX_EIGHT, limit=5.0),
        GRAD,
        [3, 4],
        [1.5, 2],
        NOTHING,
    ),
    (
        "dp-multiplier-local-mean",
        "NVIDIA-NeMo/Automodel/issues/3846",
        ranks(*TWO_EACH, loss="means"),
        GRAD,
        [2],
        [16],
        [8],
    ),
    (
        "dp-multiplier-local-mean",
        "neuralmagic/sparseml/pull/135",
        ranks([([1.0], 1)], [([3.0], 1)], loss="means"),
        GRAD,
        [2],
        [4],
        NOTHING,
    ),
    (
        "strategy-scale-mismatch",
        "pytorch/torchtitan/issues/2972",
        ranks([([32.0, -16.0], 16)], path="pipeline"),
        GRAD,
        [2, -1],
        [32, -16],
        NOTHING,
    ),
    (
        "strategy-scale-mismatch",
        "radixark/miles/pull/3231",
        ranks([([12.0], 6)], [([24.0], 12)], path="engine"),
        GRAD,
        [2],
        [18],
        NOTHING,
    ),
    (
        "gathered-loss-factor",
        "modelscope/ms-swift/pull/10150",
        gathered([[3.0], [5.0]], "detached", "mean", "megatron"),
        GRAD,
        [8],
        [4],
        NOTHING,
    ),
    (
        "gathered-loss-factor",
        "modelscope/ms-swift/pull/10150",
        gathered([[3.0], [5.0]], "detached", "sum", "megatron"),
        GRAD,
        [8],
        NOTHING,
        [16],
    ),
    (
        "gathered-loss-factor",
        "mlfoundations/open_clip/issues/616",
        gathered([[2.0], [2.0]], "detached", "mean"),
        GRAD,
        [4],
        [2],
        NOTHING,
    ),
    (
        "gathered-loss-factor",
        "mlfoundations/open_clip/issues/616",
        gathered([[4.0], [4.0]], "differentiable", "sum"),
        GRAD,
        [4],
        [8],
        NOTHING,
    ),
    (
        "gathered-loss-factor",
        "deepspeedai/DeepSpeed/issues/7107",
        gathered([[6.0, 0.0], [0.0, 8.0], [0.0, 0.0], [0.0, 0.0]], "detached", "mean", limit=5.0),
        GRAD,
        [3, 4],
        [1.5, 2],
        NOTHING,
    ),
    (
        "expert-divisor",
        "NVIDIA/Megatron-LM/pull/5956",
        experts(8, [6.0], [10.0]),
        only("experts", "e"),
        [2],
        [8],
        NOTHING,
    ),
    (
        "expert-divisor",
        "pytorch/pytorch/issues/160285",
        experts(2, [1.0, -3.0]),
        only("experts", "e"),
        [0.5, -1.5],
        [1, -3],
        NOTHING,
    ),
    (
        "expert-divisor",
        "NVIDIA/Megatron-LM/pull/7160",
        experts(4, [8.0]),
        only("experts", "e"),
        [2],
        [8],
        NOTHING,
    ),
    (
        "extra-axis-loss-factor",
        "NVIDIA/Megatron-LM/issues/906",
        axes({"dp": 2, "cp": 4}, main=term([2.0] * 8, ["cp"], dp="mean", cp="sum")),
        GRAD,
        [8],
        [32],
        NOTHING,
    ),
    (
        "extra-axis-loss-factor",
        "NVIDIA/Megatron-LM/issues/3943",
        axes({"cp": 4}, main=term([0.0] * 4, ["cp"], cp="sum"), aux=term([1.0] * 4, [], cp="sum")),
        only("terms", "aux"),
        [4],
        NOTHING,
        [1],
    ),
    (
        "extra-axis-loss-factor",
        "pytorch/pytorch/issues/155903",
        axes(
            {"replicate": 2, "shard": 4},
            main=term([75.0] * 8, ["shard"], 300, replicate="sum", shard="sum"),
        ),
        GRAD,
        [2],
        NOTHING,
        [1],
    ),
    (
        "extra-axis-loss-factor",
        "meta-pytorch/torchtune/pull/2687",
        axes({"dp": 4, "tp": 2}, main=term([8.0] * 8, ["tp"], 16, dp="sum", tp="copy")),
        GRAD,
        [2],
        [4],
        NOTHING,
    ),
    (
        "extra-axis-loss-factor",
        "verl-project/verl/issues/2857",
        axes({"sp": 2}, main=term([4.0, 8.0], ["sp"], 8, sp="sum")),
        GRAD,
        [1.5],
        [3],
        NOTHING,
    ),
]
