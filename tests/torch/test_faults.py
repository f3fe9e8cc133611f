"""Ranks that die, hang, call something else or call differently: every survivor gets an error that names them."""

import contextlib
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ranks import DIED, on_ranks

from shardproof import (
    DisagreementError,
    InvalidValueError,
    NonFiniteGradientError,
    ParticipationError,
    PlacementError,
    global_norm,
)
from shardproof.torch import roll_call

pytestmark = pytest.mark.processes

FAR = 300.0
"""A group timeout that no test waits for: who answers before did not need it."""

NEAR = 2.0
"""A group timeout that a test does wait for."""


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile the kernel's code before any rank waits for another: at its first use that takes many seconds."""
    from shardproof.torch import clip_grad_norm_

    for order in (1.0, 2.0):
        clip_grad_norm_([parameter([3.0, 4.0])], 1.0, order)


def parameter(values):
    made = torch.nn.Parameter(torch.zeros(len(values)))
    made.grad = torch.tensor(values)
    return made


class Model:
    """A shard and a copy; the norm over all ranks is known from the rule on plain lists."""

    LAYOUT = {"shard": "shard", "copy": "replicate"}  # noqa: RUF012

    def __init__(self, rank, ranks):
        self.shard, self.copy = parameter([float(rank + 1), 2.0]), parameter([5.0])
        self.norm = global_norm([[float(each + 1), 2.0] for each in range(ranks)] + [[5.0]])
        self.before = [each.grad.clone() for each in self.grads_of()]

    def grads_of(self):
        return self.shard, self.copy

    @property
    def named(self):
        return [("shard", self.shard), ("copy", self.copy)]

    def untouched(self):
        return all(torch.equal(each.grad, was) for each, was in zip(self.grads_of(), self.before, strict=True))

    def reset(self):
        for each, was in zip(self.grads_of(), self.before, strict=True):
            each.grad = was.clone()

    def clip(self, max_norm=1.0, named=None, **options):
        """What a call gives: ("norm", value), or the error's type and text and whether the gradients are untouched."""
        from shardproof import ShardproofError
        from shardproof.torch import clip_grad_norm_

        self.reset()
        try:
            norm = clip_grad_norm_(named or self.named, max_norm, **{"placements": self.LAYOUT} | options)
        except ShardproofError as error:
            return type(error), str(error), self.untouched()
        return "norm", float(norm) if isinstance(norm, torch.Tensor) else None


def right(model):
    """A call of all ranks that must succeed."""
    kind, norm = model.clip()
    assert (kind, norm) == ("norm", model.norm)
    assert not model.untouched()


def end_here():
    # The others may still be reading what this rank sent last, and that call is to succeed.
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


def done(rank):
    """Tell a rank that waits for the end of the others."""
    roll_call._store().set(f"test/done/{rank}", "yes")


def wait_for(ranks, seconds=40):
    """Wait until these ranks have their answer, so that this one does not end before; or have ended."""
    with contextlib.suppress(RuntimeError):
        roll_call._store().wait([f"test/done/{rank}" for rank in ranks], timedelta(seconds=seconds))


def assert_missed(answers, missing):
    """Every answer is a ParticipationError that names these ranks and no other; nothing was scaled."""
    for answer in answers:
        assert answer != DIED
        kind, text, untouched = answer
        assert kind is ParticipationError
        assert f"ranks {missing} do not answer" in text
        assert untouched


# ---- a rank that ends


def killed_before(rank, victim):
    model = Model(rank, 5)
    right(model)
    if rank == victim:
        end_here()
    return model.clip()


@pytest.mark.parametrize("victim", [0, 3])
def test_a_rank_killed_before_it_contributes(victim):
    """All survivors leave, also those that exchange nothing with the rank that ended, and long before the timeout."""
    answers = on_ranks(5, killed_before, victim, timeout=FAR, patience=40)
    assert answers.pop(victim) == DIED
    assert_missed(answers, [victim])


def killed_while_building(rank):
    model = Model(rank, 3)
    if rank == 1:
        end_here()
    return model.clip()


def test_a_rank_killed_before_the_first_plan():
    answers = on_ranks(3, killed_while_building, timeout=FAR, patience=40)
    assert answers.pop(1) == DIED
    assert_missed(answers, [1])


def end_inside_a_collective():
    """End this process once its main thread has been waiting in a collective for a while."""
    main = threading.main_thread().ident

    def watch():
        seen = 0
        while seen < 20:
            frame, names = sys._current_frames()[main], []
            while frame is not None:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            seen = seen + 1 if "_finish" in names else 0
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def killed_inside(rank, victim, late):
    model = Model(rank, 4)
    right(model)
    if rank == victim:
        end_inside_a_collective()
    if rank == late:
        # The others have put in what they can, and wait for this one; the victim ends meanwhile.
        time.sleep(1.5)
    return model.clip()


@pytest.mark.parametrize(("victim", "late"), [(1, 2), (2, 0)])
def test_a_rank_killed_in_the_middle_of_the_collective(victim, late):
    """Its contribution is on the way already; no survivor takes the half sum for a norm."""
    answers = on_ranks(4, killed_inside, victim, late, timeout=FAR, patience=40)
    assert answers.pop(victim) == DIED
    assert_missed(answers, [victim])


def killed_at_some_time(rank, delay):
    model = Model(rank, 3)
    right(model)
    if rank == 2:
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        answer = model.clip()
        if answer[0] != "norm":
            return answer
        assert answer[1] == model.norm


@pytest.mark.parametrize("delay", [0.03, 0.1, 0.3])
def test_a_rank_killed_at_any_time(delay):
    """Between two calls or within one: right norms until one call fails, and that one leaves the gradients alone."""
    answers = on_ranks(3, killed_at_some_time, delay, timeout=FAR, patience=40)
    assert answers.pop(2) == DIED
    assert_missed(answers, [2])


# ---- a rank that does not call


def never_calls(rank, silent):
    model = Model(rank, 4)
    right(model)
    if rank in silent:
        wait_for(set(range(4)) - set(silent))
        return None
    answer = model.clip()
    done(rank)
    return answer


@pytest.mark.parametrize("silent", [[2], [0, 3]])
def test_ranks_that_never_call(silent):
    answers = on_ranks(4, never_calls, silent, timeout=NEAR, patience=40)
    assert_missed([answer for rank, answer in enumerate(answers) if rank not in silent], silent)


def stopped(rank):
    model = Model(rank, 3)
    right(model)
    if rank == 1:
        roll_call._store().set("test/pid", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        return None
    answer = model.clip()
    done(rank)
    if rank == 0:
        wait_for([0, 2])
        os.kill(int(roll_call._store().get("test/pid")), signal.SIGKILL)
    return answer


def test_a_rank_that_is_stopped():
    answers = on_ranks(3, stopped, timeout=NEAR, patience=40)
    assert answers.pop(1) == DIED
    assert_missed(answers, [1])


def late(rank):
    model = Model(rank, 3)
    right(model)
    if rank == 1:
        time.sleep(4 * roll_call.LOOK)
    right(model)


def test_a_late_rank_is_waited_for():
    """Looking for the notes of others disturbs nobody: within the timeout a late rank is no fault."""
    assert on_ranks(3, late, timeout=FAR, patience=40) == [None] * 3


def comes_after_the_timeout(rank):
    model = Model(rank, 2)
    right(model)
    if rank == 1:
        wait_for([0])
    answer = model.clip()
    done(rank)
    return answer


def test_a_rank_that_comes_after_the_timeout_gets_an_error_too():
    """The first to fail misses the second; the second, when it comes, gets no norm either."""
    first, second = on_ranks(2, comes_after_the_timeout, timeout=NEAR, patience=40)
    assert_missed([first], [1])
    assert second[0] is ParticipationError
    assert second[2]


# ---- a rank that calls something else


def calls_other(rank, other):
    model = Model(rank, 3)
    right(model)
    if rank == 1:
        try:
            other()
        except RuntimeError:
            said = "failed"
        else:
            said = "went through"
        wait_for([0, 2], NEAR + 2 * roll_call.ASKING)
        return said
    answer = model.clip()
    done(rank)
    return answer


def other_broadcast():
    dist.broadcast(torch.zeros(3), 0)


def other_gather():
    dist.all_gather_object([None] * 3, "where are you")


def other_barrier():
    dist.barrier()


@pytest.mark.parametrize("other", [other_broadcast, other_gather, other_barrier])
def test_a_rank_in_another_collective(other):
    answers = on_ranks(3, calls_other, other, timeout=NEAR, patience=40)
    assert answers.pop(1) != DIED
    assert_missed(answers, [1])


def packet_words():
    from shardproof.torch.packet import Packet, encode

    return encode(Packet(0), 3).numel()


def other_sum(words, value):
    dist.all_reduce(torch.full((words,), value, dtype=torch.int64))


def sum_of(rank, words, value):
    return calls_other(rank, lambda: other_sum(packet_words() + words, value))


@pytest.mark.parametrize("value", [0, -1])
def test_a_rank_in_another_sum_of_the_same_size(value):
    """The words add up, but the fingerprints do not agree: no norm comes of it."""
    answers = on_ranks(3, sum_of, 0, value, timeout=NEAR, patience=40)
    assert answers.pop(1) == "went through"
    assert_missed(answers, [1])


@pytest.mark.parametrize("words", [-1, 1, 100_000])
def test_a_rank_in_another_sum_of_another_size(words):
    """Gloo ends the rank that receives more than it expects (SIGABRT), whosever it is; no rank gets a norm.

    gloo/transport/tcp/pair.cc enforces `preamble.length <= nbytes` in its own thread, where nothing can catch it,
    and accepts shorter messages: by itself such a sum can return wrong words.
    """
    answers = on_ranks(3, sum_of, words, 1, timeout=NEAR, patience=40)
    other = answers.pop(1)
    survivors = [answer for answer in answers if answer != DIED]
    assert other in ("went through", "failed", DIED)
    assert DIED in (other, *answers) or survivors
    assert all(kind is ParticipationError and untouched for kind, _, untouched in survivors)


# ---- a rank that calls differently


OTHERWISE = {
    "limit": ({"max_norm": 2.0}, "max_norm=2.0"),
    "norm order": ({"norm_type": 1.0}, "norm_type=1.0"),
    "epsilon": ({"eps": 1e-6}, "eps=1e-06"),
    "policy": ({"error_if_nonfinite": True}, "error_if_nonfinite=True"),
    "per-parameter norms": ({"per_parameter_norms": True}, "per_parameter_norms=True"),
    "checked copies": ({"check_copies": True}, "check_copies=True"),
    "reduced partials": ({"reduce_partials": True}, "reduce_partials=True"),
    "groups": ({"groups": {"a": ["shard"], "b": ["*"]}}, "groups=['a', 'b']"),
    "empty group": ({"groups": {"": ["*"], "none": ["nothing*"]}}, "groups=['', 'none']"),
    "placements": ({"placements": {"*": "shard"}}, "plan "),
}


def calls_otherwise(rank, warm):
    model = Model(rank, 3)
    found = {}
    for name, (options, _) in OTHERWISE.items():
        if warm:
            # Both plans stand on all ranks, so that no building stands between the mistake and the sum.
            right(model)
            assert model.clip(**options)[0] == "norm"
        found[name] = model.clip(**options if rank == 1 else {})
        right(model)
    return found


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "later call"])
def test_a_rank_that_calls_with_something_else(warm):
    """All ranks get the error, which says who called how; a packet of another size never meets theirs."""
    for found in on_ranks(3, calls_otherwise, warm, timeout=30, patience=60):
        for name, (_, named) in OTHERWISE.items():
            kind, text, untouched = found[name]
            # A plan that is not the others' is built again together, and the tensor they differ on is named.
            assert kind is (PlacementError if name == "placements" else DisagreementError), name
            assert untouched
            if kind is DisagreementError:
                assert "rank" in text
                assert named in text


def unusable(rank):
    from shardproof.torch import clip_grad_norm_

    model = Model(rank, 3)
    limit = model.clip(-1.0 if rank == 1 else 1.0)
    right(model)
    # Two elements in one place of memory cannot be scaled in place.
    expanded = parameter([0.0, 0.0])
    expanded.grad = torch.ones(1).expand(2)
    with pytest.raises((InvalidValueError, DisagreementError)) as caught:
        clip_grad_norm_([("shard", expanded if rank == 1 else model.shard)], 1.0, placements="shard")
    right(model)
    gradient = caught.type, str(caught.value)
    return limit, gradient


def test_a_rank_with_an_unusable_limit_or_gradient():
    """It raises its own error, the others that of this rank; all in the same call."""
    for rank, ((kind, text, untouched), gradient) in enumerate(on_ranks(3, unusable, timeout=30)):
        assert kind is (InvalidValueError if rank == 1 else DisagreementError)
        assert "-1" in text
        assert rank == 1 or "rank 1: " in text
        assert untouched
        assert gradient[0] is (InvalidValueError if rank == 1 else DisagreementError)
        assert "rank 1: the gradient of shard" in gradient[1]


def lists_less_at_first(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from shardproof.torch import clip_grad_norm_

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    weight = torch.nn.Parameter(distribute_tensor(torch.zeros(4), mesh, [Shard(0)]))
    weight.grad = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
    with pytest.raises(PlacementError) as caught:
        clip_grad_norm_([("weight", weight)] if rank == 0 else [], 1.0)
    assert weight.grad.to_local().tolist() == [1.0, 1.0]
    return str(caught.value)


def test_a_rank_that_lists_less_at_first():
    """The proof of coverage finds it on every rank, since a DTensor says its global shape."""
    for text in on_ranks(2, lists_less_at_first, timeout=30):
        assert "weight" in text
        assert "rank 0 holds" in text


def lists_less_later(rank):
    model = Model(rank, 2)
    whole, part = model.named, model.named[:1]
    assert {model.clip(named=each)[0] for each in (whole, part)} == {"norm"}
    answer = model.clip(named=whole if rank == 0 else part)
    right(model)
    return answer


def test_a_rank_that_lists_less_later():
    """Both plans stand on all ranks; they are built again together, and the tensor that one rank lacks is named."""
    for kind, text, untouched in on_ranks(2, lists_less_later, timeout=30):
        assert kind is PlacementError
        assert "copy is said to be copied on ranks [0, 1], but ranks [1] do not list it" in text
        assert untouched


def builds_otherwise(rank):
    from shardproof.torch import ClipPlan

    model = Model(rank, 2)
    with pytest.raises(DisagreementError) as caught:
        ClipPlan(model.named, placements=model.LAYOUT, check_copies=rank == 1)
    right(model)
    return str(caught.value)


def test_a_plan_that_ranks_want_differently_is_not_built():
    for text in on_ranks(2, builds_otherwise, timeout=30):
        assert "ranks 0: groups=[], per_parameter_norms=False, check_copies=False, reduce_partials=False" in text
        assert "ranks 1: groups=[], per_parameter_norms=False, check_copies=True, reduce_partials=False" in text


# ---- values that are not finite


def nan_in(rank, where, holder):
    model = Model(rank, 3)
    if rank == holder:
        index = ["shard", "copy"].index(where)
        model.before[index] = torch.full_like(model.before[index], float("nan"))
    kind, norm = model.clip()
    model.before = [each.nan_to_num(7.0) for each in model.before]
    same = [each.grad.nan_to_num(7.0) for each in model.grads_of()]
    silent = kind, str(norm), all(torch.equal(a, b) for a, b in zip(same, model.before, strict=True))
    if rank == holder:
        model.before[index] = torch.full_like(model.before[index], float("nan"))
    return silent, model.clip(error_if_nonfinite=True)[:2]


@pytest.mark.parametrize(("where", "holder"), [("shard", 2), ("copy", 0), ("copy", 1)])
def test_a_nan_on_one_rank_or_in_one_copy(where, holder):
    """The owner of the copy is rank 0; a NaN in a copy that nobody counts is found as well."""
    for silent, (kind, text) in on_ranks(3, nan_in, where, holder, timeout=30):
        assert silent == ("norm", "nan", True)
        assert kind is NonFiniteGradientError
        assert f"rank {holder}: {where}" in text
        assert text.count("rank ") == 1


# ---- summands on one stage only


def summands_on_one_stage(rank):
    from torch.distributed.device_mesh import init_device_mesh

    from shardproof.torch import clip_grad_norm_

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    first = parameter([3.0, 1.0]) if rank < 2 else parameter([5.0])
    name, kind = ("whole", "replicate") if rank >= 2 else ("summed", "partial")
    options = {"mesh": mesh, "placements": {"*": {"pp": "distinct", "dp": kind}}, "reduce_partials": True}
    norms = []
    for _ in range(2):
        first.grad = torch.tensor([3.0, 1.0] if rank < 2 else [5.0])
        norms.append(float(clip_grad_norm_([(name, first)], None, **options)))
    return norms


def test_a_stage_without_summands_waits_for_the_one_that_has_some():
    """Whether a turn of reducing comes first is known to all ranks, or a rank takes half the packet for the norm."""
    wanted = global_norm([[6.0, 2.0], [5.0]])
    assert on_ranks(4, summands_on_one_stage, timeout=10) == [[wanted, wanted]] * 4


# ---- the store, and what comes after


def over_tcp(rank, ranks):
    """A new default group whose store is hosted by rank 0, as with MASTER_ADDR and without torchrun."""
    host = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False) if rank == 0 else None
    box = [(host.port, os.getpid()) if host else None]
    dist.broadcast_object_list(box)
    port, pid = box[0]
    store = host or dist.TCPStore("127.0.0.1", port, None, is_master=False)
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=NEAR))
    return pid


def store_host_fails(rank, how):
    files = roll_call._store()
    host = over_tcp(rank, 3)
    model = Model(rank, 3)
    right(model)
    if rank == 0:
        os.kill(os.getpid(), how)
        return None
    answer = model.clip()
    files.set(f"test/done/{rank}", "yes")
    if rank == 1 and how == signal.SIGSTOP:
        files.wait(["test/done/2"], timedelta(seconds=20))
        os.kill(host, signal.SIGKILL)
    return answer


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_host_of_the_store_fails(how):
    """Nobody is left to ask, and the error says so; a store that was stopped never answers, and nobody waits for it."""
    answers = on_ranks(3, store_host_fails, how, timeout=NEAR, patience=40)
    assert answers.pop(0) == DIED
    for kind, text, untouched in answers:
        assert kind is ParticipationError
        assert "the run's store does not answer either" in text
        assert untouched


def second_failure(rank):
    small = dist.new_group([0, 1, 2], timeout=timedelta(seconds=NEAR))
    model = Model(rank, 4)
    right(model)
    if rank == 3:
        wait_for([0, 1, 2])
        return None
    first = model.clip()
    again = model.clip()
    model.norm = global_norm([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [5.0]])
    options = {"group": small, "placements": {"shard": "shard", "copy": "replicate"}}
    assert model.clip(**options)[1] == model.norm
    second = model.clip(**options) if rank != 1 else None
    if rank != 1:
        done(f"second/{rank}")
    else:
        wait_for(["second/0", "second/2"])
    done(rank)
    return first, again, second


def test_a_second_failure_does_not_read_the_notes_of_the_first():
    """Rank 1 answers when rank 3 is missing, and is itself missing later, in another group."""
    answers = on_ranks(4, second_failure, timeout=NEAR, patience=60)[:3]
    assert_missed([first for first, _, _ in answers], [3])
    assert_missed([again for _, again, _ in answers], [3])
    assert_missed([second for _, _, second in answers if second is not None], [1])


def destroyed(rank):
    from shardproof.torch import ClipPlan

    model = Model(rank, 2)
    plan = ClipPlan(model.named, placements=model.LAYOUT)
    right(model)
    model.reset()
    store = dist.FileStore(f"{roll_call._store().underlying_store.path}.2", 2)
    dist.barrier()
    dist.destroy_process_group()
    texts = []
    for _ in range(2):
        with pytest.raises(ParticipationError) as caught:
            plan.clip_(1.0)
        assert model.untouched()
        texts.append(str(caught.value))
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=20))
    right(model)
    return texts


def test_a_plan_of_a_destroyed_group_says_so():
    """Without a group, and beside a new one: torch itself would go on to use the old one."""
    for texts in on_ranks(2, destroyed, timeout=20):
        assert all("was destroyed. Build a new plan" in text for text in texts)


# ---- the roll call by itself


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 70).flatmap(lambda ranks: st.tuples(st.just(ranks), st.sets(st.integers(0, ranks - 1)))))
def test_missing_ranks_are_found_exactly(drawn):
    """By halving, whatever their number and place."""
    ranks, missing = drawn
    store = dist.HashStore()
    call = roll_call.Call(Group(), tuple(range(ranks)), 0, 7, "sum")
    for rank in set(range(ranks)) - missing:
        store.set(call.key(7, rank), "sum")
        store.set(call.key(6, rank), "sum")
    for rank in missing:
        store.set(call.key(8, rank), "sum")
    assert roll_call._missing(store, call, list(range(ranks))) == sorted(missing)


def test_what_is_known_is_said():
    call = roll_call.Call(None, (0, 1, 2), 0, 0, "sum")
    described = roll_call.described
    assert "not known" in described(call, None)
    assert "ranks [1] do not answer" in described(call, {0: "sum", 2: "sum"})
    assert "all of them answer" in described(call, {0: "sum", 1: "sum", 2: "sum"})
    told = described(call, {0: "sum", 1: "gather", 2: "sum"})
    assert told == "they made different calls: ranks [0, 2]: sum; ranks [1]: gather"


def test_a_store_that_never_answers_is_not_waited_for():
    """As one whose host was stopped or cut off: the question stays open, the caller goes on."""
    never = threading.Event()
    assert roll_call._in_time(never.wait, 0.1) is None
    never.set()
    assert roll_call._in_time(lambda: "here", 10.0) == "here"


class Group:
    """What a note needs of a process group."""

    group_name = "g"


class EndsAfter:
    """A store whose host ends after some seconds."""

    def __init__(self, seconds):
        self.store, self.end = dist.HashStore(), time.monotonic() + seconds

    def __getattr__(self, name):
        if time.monotonic() > self.end:
            raise RuntimeError("Broken pipe")
        return getattr(self.store, name)


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.3, None), (1.5, {0: "sum", 2: "gather"}), (60, {0: "sum", 2: "gather"})]
)
def test_a_store_that_ends_while_it_is_asked(monkeypatch, seconds, told):
    """Silence counts only when it lasted so long that a living rank would have left a note."""
    store = EndsAfter(seconds)
    monkeypatch.setattr(roll_call, "_store", lambda: store)
    call = roll_call.Call(Group(), (0, 1, 2), 0, 4, "sum")
    store.set(call.key(4, 2), "gather")
    assert roll_call.answers(call) == told
