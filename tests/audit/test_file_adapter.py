"""The file adapter: right and wrong jobs are told apart, and nothing that a job writes does more than be judged."""

import json
import math
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shardproof.audit import store
from shardproof.audit.files import collect, export, export_plan, is_export
from shardproof.audit.files.boundary import DamagedError
from shardproof.audit.files.tensors import Stored, read, written
from shardproof.audit.grade import grade
from shardproof.audit.layouts import named
from shardproof.audit.orders import norm_of_order
from shardproof.audit.run import go_on, regrade
from shardproof.audit.store import StoredRunError
from shardproof.cli.main import app
from shardproof.errors import InvalidValueError

LAYOUT = "hand-sharded"
CHOSEN = ("one-rank", "fsdp2-uneven", "fsdp1-flat", "pipeline-no-gradients", "ep-idle", "zero-flat", "mixed-dtypes")
CALL = f"results/{LAYOUT}/over"


def answer(folder, layouts, wrong=None):
    """A job in plain Python that is right because it reads every call of the plan; `wrong` changes (values, norm)."""
    plan = export_plan(named(layouts))
    for layout in plan.layouts:
        for call in layout.fixtures:
            out = folder / "results" / layout.name / call.name
            out.mkdir(parents=True)
            values = [value for row in call.gradients.values() for value in row]
            finite = all(map(math.isfinite, values))
            norm = norm_of_order(values) if finite else math.nan if any(map(math.isnan, values)) else math.inf
            factor = call.limit / norm if finite and norm > call.limit >= 0 else 1.0
            for rank in range(layout.world_size):
                held = read((folder / "job" / layout.name / call.name / f"rank{rank}.safetensors").read_bytes())
                said, scale = (norm, factor) if wrong is None else wrong(norm, factor, held)
                after = {n: Stored(t.dtype, t.shape, tuple(v * scale for v in t.values)) for n, t in held.items()}
                refused = not call.limit >= 0
                (out / f"rank{rank}.safetensors").write_bytes(written(after))
                text = json.dumps({"error": "no limit"} if refused else {"norm": said})
                (out / f"rank{rank}.json").write_text(text)


def verdict(folder):
    collect(folder)
    return regrade(folder)


def subject(folder):
    collect(folder)
    plan, digest = store.read_plan(folder)
    return grade(plan, digest, store.read_observations(folder, plan, digest)[0]).cells[1]


@pytest.fixture
def exported(tmp_path):
    folder = tmp_path / "export"
    export(folder, export_plan(named([LAYOUT])))
    return folder


@pytest.fixture
def answered(exported):
    answer(exported, [LAYOUT])
    return exported


def test_a_right_job_passes_core_and_strict(tmp_path):
    folder = tmp_path / "export"
    export(folder, export_plan(named(CHOSEN)))
    answer(folder, CHOSEN)

    collect(folder)
    graded = regrade(folder, profile="strict")

    assert graded.counts == {"pass": len(CHOSEN)}, [cell for cell in graded.cells if cell.verdict != "pass"][:2]
    assert graded.word == "held"
    assert "came as files" in " ".join(graded.limits)


def test_a_job_that_clips_each_rank_by_its_own_norm_fails(exported):
    def local(norm, factor, held):
        own = norm_of_order([value for tensor in held.values() for value in tensor.values if math.isfinite(value)])
        return own, min(1.0, factor * norm / own) if own and math.isfinite(norm) else 1.0

    answer(exported, [LAYOUT], local)
    graded = verdict(exported)

    assert graded.word == "violated"
    assert "norm.global" in graded.cells[1].reason
    candidates = [one for each in graded.diagnoses for candidate in each.candidates for one in candidate.together]
    assert "local-shard-clip" in {name.mechanism for together in candidates for name in together}


@pytest.mark.processes
def test_the_job_of_the_documentation_runs_and_is_judged(tmp_path):
    pytest.importorskip("torch", reason="the example job needs torch")
    text = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    job = next(block for block in text.split("```python\n")[1:] if block.startswith("import json, sys"))
    (tmp_path / "job.py").write_text(job.partition("```")[0])
    (tmp_path / "mine.py").write_text("from torch.nn.utils import clip_grad_norm_ as clip\n")
    folder = tmp_path / "export"
    export(folder, export_plan(named(["ddp", LAYOUT])))
    for layout in ("ddp", LAYOUT):
        command = [sys.executable, "job.py", folder, layout]
        shared = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            "WORLD_SIZE": "2",
            "OMP_NUM_THREADS": "1",
        }
        ranks = [subprocess.Popen(command, cwd=tmp_path, env=shared | {"RANK": str(rank)}) for rank in (0, 1)]
        try:
            assert [rank.wait(timeout=50) for rank in ranks] == [0, 0]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()

    graded = verdict(folder)

    assert [cell.verdict for cell in graded.cells if not cell.control] == ["pass", "fail"]


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_job_that_has_not_run_is_not_run(exported):
    graded = verdict(exported)
    assert (graded.word, graded.exit_code, graded.counts) == ("nothing ran", 5, {"not run": 1})


def test_an_export_is_known_and_is_not_run(exported, tmp_path):
    assert is_export(exported)
    assert not is_export(tmp_path)
    with pytest.raises(InvalidValueError, match="got the export"):
        go_on(exported)


def _edit(path, change):
    path.write_bytes(change(path.read_bytes()))


def _header(data, change):
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    text = json.dumps(change(header) or header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _offsets(header):
    header[next(iter(header))]["data_offsets"][0] += 4


def _renamed(header):
    header["another"] = header.pop(next(iter(header)))


def _link(path):
    target = path.with_name("elsewhere")
    path.rename(path.parent.parent.parent.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent.parent.parent.parent / "elsewhere")
    assert not target.exists()


def _folder_link(path):
    elsewhere = path.parent.parent.parent.parent.parent / "elsewhere"
    path.parent.rename(elsewhere)
    path.parent.symlink_to(elsewhere)


def _fifo(path):
    path.unlink()
    os.mkfifo(path)


def _a_folder(path):
    path.unlink()
    path.mkdir()


TENSORS = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: _edit(path, lambda data: data[:-3]),
    "bytes behind": lambda path: _edit(path, lambda data: data + b"\0" * 8),
    "header longer than the file": lambda path: _edit(path, lambda data: b"\xff" * 8 + data[8:]),
    "header of 2**40 bytes": lambda path: _edit(path, lambda data: struct.pack("<Q", 2**40) + data[8:]),
    "header is no JSON": lambda path: _edit(path, lambda data: data[:8] + b"\xff" + data[9:]),
    "header is deep": lambda path: path.write_bytes(struct.pack("<Q", 60000) + b"[" * 60000),
    "header has digits": lambda path: path.write_bytes(struct.pack("<Q", 60000) + b"1" * 60000),
    "header is a list": lambda path: path.write_bytes(struct.pack("<Q", 2) + b"[]"),
    "offsets overlap": lambda path: _edit(path, lambda data: _header(data, _offsets)),
    "tensor renamed": lambda path: _edit(path, lambda data: _header(data, _renamed)),
    "too large": lambda path: path.write_bytes(b"\0" * 2**20),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR."),
    "a link": _link,
    "a link to a folder": _folder_link,
    "a FIFO": _fifo,
    "a folder": _a_folder,
    "a device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "a file too many": lambda path: path.with_name("rank2.safetensors").write_bytes(b""),
    "an escape as name": lambda path: path.with_name("\x1b[2Jrank2").write_bytes(b""),
}
ANSWERS = {
    "missing": Path.unlink,
    "no JSON": lambda path: path.write_text("norm"),
    "not UTF-8": lambda path: path.write_bytes(b'{"norm": "\xff"}'),
    "a list": lambda path: path.write_text("[1]"),
    "told twice": lambda path: path.write_text('{"norm": 14.0, "norm": 1.0}'),
    "another key": lambda path: path.write_text('{"norm": 14.0, "verdict": "pass"}'),
    "no key": lambda path: path.write_text("{}"),
    "deep": lambda path: path.write_text("[" * 10000),
    "too large": lambda path: path.write_text(" " * 20000 + '{"norm": 14.0}'),
    "a link": _link,
}


@pytest.mark.parametrize("name", TENSORS)
def test_what_cannot_be_read_is_never_passed(answered, name):
    TENSORS[name](answered / CALL / "rank1.safetensors")

    cell = subject(answered)

    assert cell.verdict == "could not tell"
    assert "over: " in cell.reason
    assert cell.reason.isprintable()


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_none_is_never_passed(answered, name):
    ANSWERS[name](answered / CALL / "rank0.json")
    assert subject(answered).verdict == "could not tell"


def _as_dtype(dtype, size):
    def change(path):
        held = read(path.read_bytes())
        path.write_bytes(written({n: Stored(dtype, t.shape, t.values) for n, t in held.items()}))

    return change


def _reshaped(path):
    held = read(path.read_bytes())
    path.write_bytes(written({n: Stored(t.dtype, (1, *t.shape), t.values) for n, t in held.items()}))


def _integers(path):
    def change(header):
        for each in header.values():
            each["dtype"] = "I32"

    _edit(path, lambda data: _header(data, change))


@pytest.mark.parametrize("change", [_as_dtype("float64", 8), _as_dtype("bfloat16", 2), _reshaped, _integers])
def test_a_result_of_another_dtype_or_shape_fails(answered, change):
    change(answered / CALL / "rank1.safetensors")
    cell = subject(answered)
    assert (cell.verdict, "the result is" in cell.reason) == ("fail", True)


@pytest.mark.parametrize(
    "norm", ["true", '"14"', "null", "[]", "1" + "0" * 400, "NaN", '"nan"', '"inf"', "1e400", "15"]
)
def test_a_norm_that_is_no_number_or_wrong_fails(answered, norm):
    (answered / CALL / "rank0.json").write_text(f'{{"norm": {norm}}}')
    assert subject(answered).verdict == "fail"


def test_an_error_of_the_job_counts_against_it_and_drives_no_terminal(answered):
    (answered / CALL / "rank0.json").write_text(json.dumps({"error": "\x1b[2J\ud800" + "x" * 9000}))
    cell = subject(answered)
    assert cell.verdict == "error"
    assert "\x1b" not in cell.reason


def test_gradients_that_were_changed_after_the_export_are_no_basis(answered):
    path = answered / "job" / LAYOUT / "over" / "rank0.safetensors"
    _edit(path, lambda data: data[:-1] + b"\x7f")

    cell = subject(answered)

    assert cell.verdict == "could not tell"
    assert "not what was exported" in cell.reason


def test_a_plan_that_was_changed_is_refused(answered):
    text = (answered / "plan.json").read_text()
    assert '"limit": 7.0' in text or '"limit":7.0' in text
    (answered / "plan.json").write_text(
        text.replace('"limit": 7.0', '"limit": 9e9').replace('"limit":7.0', '"limit":9e9')
    )
    with pytest.raises(StoredRunError, match="this version exports"):
        collect(answered)


def test_an_export_that_poses_as_a_run_is_not_believed(answered):
    collect(answered)
    text = (answered / "plan.json").read_text()
    (answered / "plan.json").write_text(text.replace('"framework": "files"', '"framework": "torch"'))
    assert "torch" in (answered / "plan.json").read_text()

    assert is_export(answered)
    with pytest.raises(StoredRunError, match="this version exports"):
        collect(answered)


def test_the_commands_export_and_grade(tmp_path):
    folder, run = tmp_path / "export", CliRunner().invoke
    exported = run(app, ["audit", "export", str(folder), "--layout", LAYOUT])
    digest = exported.output.split("--plan-sha256 ")[1].strip()
    answer(folder, [LAYOUT])

    assert exported.exit_code == 0
    assert run(app, ["audit", "grade", str(folder), "--plan-sha256", digest, "--profile", "strict"]).exit_code == 0
    assert run(app, ["audit", "grade", str(folder), "--plan-sha256", "0" * 64]).exit_code == 4
    (folder / CALL / "rank0.json").write_text('{"norm": 1.0}')
    assert run(app, ["audit", "grade", str(folder)]).exit_code == 1
    (folder / CALL / "rank0.json").unlink()
    assert run(app, ["audit", "grade", str(folder)]).exit_code == 3


@pytest.mark.parametrize("name", ["sitecustomize.py", "results/other"])
def test_what_nobody_planned_in_the_folder_is_refused(answered, name):
    (answered / name).mkdir()
    with pytest.raises(InvalidValueError, match="nobody planned"):
        collect(answered)


def test_results_that_are_a_link_are_not_followed(answered, tmp_path):
    (answered / "results").rename(tmp_path / "elsewhere")
    (answered / "results").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoredRunError, match="without following links"):
        collect(answered)


def test_the_files_are_what_safetensors_reads():
    numpy = pytest.importorskip("numpy", reason="safetensors' reader gives arrays")
    from safetensors.numpy import load, save

    tensors = {
        "b": Stored("float32", (2, 1), (1.5, -2.0)),
        "a": Stored("float64", (0,), ()),
        "c": Stored("float16", (), (0.5,)),
    }
    loaded = load(written(tensors))

    assert {name: (each.dtype.name, each.shape) for name, each in loaded.items()} == {
        name: (each.dtype, each.shape) for name, each in tensors.items()
    }
    assert numpy.array_equal(loaded["b"], [[1.5], [-2.0]])
    assert read(save(loaded)) == tensors


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 120), st.booleans())
def test_no_bytes_make_the_reader_do_more_than_refuse(noise, place, framed):
    right = written({"w": Stored("float32", (2,), (1.0, 2.0))})
    data = struct.pack("<Q", len(noise)) + noise if framed else right[:place] + noise + right[place + len(noise) :]
    try:
        found = read(data)
    except DamagedError:
        return
    assert all(isinstance(each, Stored) for each in found.values())
