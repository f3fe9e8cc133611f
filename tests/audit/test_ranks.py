"""Ranks: whatever a subject does to them, the audit ends with a clear verdict, and nothing is left running."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

from shardproof.audit.layouts import Layout
from shardproof.audit.ranks import on_every_rank, results_on_every_rank, strays
from shardproof.errors import InvalidValueError, ParticipationError

pytestmark = pytest.mark.processes

VERDICTS = [
    ("skips_a_collective", "hang", (0,), "over: rank 0 waited in a collective until it timed out, rank 1 had returned"),
    ("loops_on_rank_1", "hang", (1,), "over: rank 1 did not come back (in the call), rank 0 had returned"),
    ("stops_itself", "hang", (0, 1), "over: ranks 0, 1 did not come back (in the call)"),
    ("leaves_with_zero", "crash", (1,), "over: rank 1 ended with exit code 0 (in the call)"),
    ("killed", "crash", (0,), "over: rank 0 was ended by SIGKILL (in the call)"),
    ("raises_on_rank_1", "error", (1,), "over: rank 1 raised ValueError: rank 1 does not like this"),
    ("raises_everywhere", "error", (0, 1), "over: ranks 0, 1 raised KeyError: 'limit 7.0'"),
    ("raises_of_a_timeout_of_its_own", "error", (0, 1), "RuntimeError: timeout: the metrics service timed out"),
    ("waits_for_a_key", "hang", (0,), "over: rank 0 waited in a collective until it timed out, rank 1 had returned"),
    ("sys_exit", "error", (0, 1), "over: ranks 0, 1 raised SystemExit: 0"),
    ("forges", "fail", (0, 1), "norm.global: over: expected norm 14.0, returned 0.0 on rank 0"),
    ("raises_what_no_encoding_holds", "error", (0, 1), "RuntimeError: \\ud800"),
    # Whether its exit code or gloo's thread, whose sockets it closed, ends the rank first is a race.
    ("closes_everything", "crash", (0, 1), "over: rank 0 "),
    ("scribbles", "crash", (0, 1), "wrote to the harness's channel"),
    ("forges_an_empty_frame", "crash", (0, 1), "wrote to the harness's channel (no account of the call over)"),
    ("forges_another_call", "crash", (0, 1), "wrote to the harness's channel (no account of the call over)"),
    ("forges_what_no_encoding_holds", "crash", (0, 1), "wrote to the harness's channel (UnicodeEncodeError"),
    ("raises_without_text", "error", (0, 1), "NoText: (its text cannot be read)"),
    ("returns_half_a_dtensor", "fail", (0, 1), "its placements raise AttributeError"),
    ("widens", "fail", (0, 1), "up.weight: the gradient was float32 of shape (4, 3), and is float64 of shape (4, 3)"),
    ("flattens", "fail", (0, 1), "up.weight: the gradient was float32 of shape (4, 3), and is float32 of shape (12,)"),
    ("full_tensor_hangs", "hang", (0, 1), "over: ranks 0, 1 did not come back (in full_tensor() of what it returned)"),
    ("FORGED", "error", (0, 1), "import failed on ranks 0, 1: shardproof.errors.InvalidTypeError: Expected a callable"),
]


@pytest.mark.parametrize(("name", "verdict", "ranks", "reason"), VERDICTS)
def test_a_rude_subject_ends_in_a_clear_verdict(verdict_on, subjects, name, verdict, ranks, reason):
    cell = verdict_on(f"{subjects / 'rude.py'}:{name}", "hand-sharded")

    assert (cell.verdict, cell.ranks) == (verdict, ranks), cell.reason
    assert reason in cell.reason


def test_a_number_that_never_comes_is_a_hang(verdict_on, subjects):
    cell = verdict_on(f"{subjects / 'wrong.py'}:float_hangs", "one-rank")

    assert (cell.verdict, cell.ranks) == ("hang", (0,))
    assert "reading what it returned" in cell.reason


def test_a_subject_that_cannot_be_imported_is_an_error_with_its_last_line(verdict_on, subjects):
    cell = verdict_on(f"{subjects / 'broken_import.py'}:clip", "one-rank")

    assert cell.verdict == "error"
    assert "ModuleNotFoundError: No module named 'a_package_that_is_not_there'" in cell.reason


@pytest.mark.parametrize("rude", ["leaves_children", "leaves_a_daemon", "leaves_a_daemon_and_ends"])
def test_nothing_that_a_subject_starts_outlives_its_cell(verdict_on, subjects, tmp_path, rude):
    # The forkserver's environment is that of its start, so the children are told by a file that both know.
    started = tmp_path / "pids"
    script = tmp_path / "subject.py"
    script.write_text(
        f"import os\nos.environ['SHARDPROOF_TEST_PIDS'] = {str(started)!r}\n"
        f"exec(open({str(subjects / 'rude.py')!r}).read())\n# {rude}\n"
    )

    verdict_on(f"{script}:{rude}", "one-rank")

    pids = [int(pid) for pid in started.read_text().split()]
    assert pids
    assert not [pid for pid in pids if alive(pid)]


@pytest.mark.parametrize("rude", ["killed", "loops_on_rank_1", "closes_everything", "stops_the_forkserver"])
def test_the_cell_after_a_bad_one_is_as_good_as_any(verdict_on, subjects, rude):
    """Ranks are forked from one warm process; what a cell did to its own does not reach the next cell's."""
    bad = verdict_on(f"{subjects / 'rude.py'}:{rude}", "fsdp2")
    good = verdict_on(f"{subjects / 'right.py'}:by_hand", "fsdp2")

    assert bad.verdict in ("crash", "hang", "fail")
    assert good.verdict == "pass", good.reason


def first_and_rank(ctx, factor):
    return [float(ctx.params[0].grad.flatten()[0]) * factor, ctx.rank, ctx.limit]


def raises_on_one(ctx):
    if ctx.rank == 1:
        raise ValueError("as meant")
    return ctx.rank


def print_and_leave(ctx):
    print("last words", flush=True)
    os._exit(7)


def world(ctx):
    return [ctx.world_size, len(ctx.params)]


def test_a_function_runs_on_every_rank_with_gradients_set():
    assert on_every_rank("pipeline", first_and_rank, 2.0) == [[2.0, 0, 6.5], [2.0, 1, 6.5]]
    assert on_every_rank("pipeline", first_and_rank, 2.0, fixture="zero-limit")[0][2] == 0.0


def test_a_layout_without_tensors_is_a_bare_world():
    assert on_every_rank(Layout("bare", "", "plain", {"dp": 3}, ()), world) == [[3, 0]] * 3


def test_a_rank_that_raises_is_a_result_or_an_error():
    results = results_on_every_rank("pipeline", raises_on_one)

    assert [each.value for each in results] == [0, None]
    assert "ValueError: as meant" in results[1].error
    with pytest.raises(ParticipationError, match="ValueError: as meant"):
        on_every_rank("pipeline", raises_on_one)


def test_a_rank_that_leaves_is_named_with_its_last_words():
    with pytest.raises(ParticipationError, match="exit code 7\nlast words"):
        on_every_rank("one-rank", print_and_leave)


def test_only_functions_that_a_rank_can_find_are_taken():
    with pytest.raises(InvalidValueError, match="top level"):
        on_every_rank("one-rank", lambda ctx: 1)
    with pytest.raises(InvalidValueError, match="fixture"):
        on_every_rank("one-rank", world, fixture="between")


def test_the_harness_does_not_run_the_main_module_again(tmp_path):
    """A script without an `if __name__` guard would otherwise start itself on every rank."""
    import subprocess
    import sys

    script = tmp_path / "script.py"
    script.write_text(
        f"print('main')\nfrom shardproof.audit.ranks import on_every_rank\n"
        f"print(on_every_rank('ddp', {str(Path(__file__))!r} + ':world'))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines() == ["main", "[[2, 3], [2, 3]]"]


def alive(pid):
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="strays are looked for in /proc")
def test_the_forkserver_is_no_stray_while_it_holds_a_ranks_log():
    reader, writer = os.pipe()
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[writer]) as holder:
        os.close(writer)
        held, spared = strays.found([], [reader], None, []), strays.found([], [reader], holder.pid, [])
        holder.communicate(b"\n")
    os.close(reader)

    assert holder.pid in held
    assert holder.pid not in spared
