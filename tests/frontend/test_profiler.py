"""wend.profiler: slices, sums and exports, against PyTorch's where the two are comparable."""

import gzip
import itertools
import json
import threading
import warnings

import numpy as np
import pytest

import wend
from wend import nn
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.runtime.measure.recorder import RUNNING
from wend._frontend.profiling.session import session
from wend.autograd import profiler as autograd_profiler
from wend.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)

#: The paths of other tests may have sealed the trie, or be compiled already.
pytestmark = pytest.mark.usefixtures("own_trie")


def make_model(tier="default"):
    """A model for each tier: a plan that was made under other settings stays on its path."""
    wend.manual_seed(0)
    more = [nn.Tanh()] * (1 + TIERS.index(tier))
    model = nn.Sequential(nn.Linear(8, 16), *more, nn.Linear(16, 3))
    return model, wend.optim.SGD(model.parameters(), lr=0.1)


TIERS = ["reference", "machine code", "default"]
DATA = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
TARGETS = np.array([0, 1, 2, 0, 1, 2])


def take_step(model, optimizer):
    optimizer.zero_grad()
    with record_function("loss"):
        loss = nn.functional.cross_entropy(model(wend.tensor(DATA)), wend.tensor(TARGETS))
    loss.backward()
    optimizer.step()
    return loss.item()


def trace_of(made, path, **options):
    made.export_chrome_trace(str(path), **options)
    return json.loads(path.read_text())


def complete(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def nanoseconds(text):
    return round(text * 1000)


def check_nesting(events):
    """Slices of a track lie inside each other, or apart; returns (slice, slice around) pairs."""
    pairs = []
    tracks = {}
    for event in events:
        tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for rows in tracks.values():
        stack = []
        rows.sort(key=lambda e: (nanoseconds(e["ts"]), -nanoseconds(e["dur"])))
        for event in rows:
            begin = nanoseconds(event["ts"])
            end = begin + nanoseconds(event["dur"])
            while stack and stack[-1][1] <= begin:
                stack.pop()
            if stack:
                assert end <= stack[-1][1], (event, stack[-1][0])
                pairs.append((event, stack[-1][0]))
            stack.append((event, end))
    return pairs


def test_counts_of_ops():
    x = wend.tensor(DATA)
    with profile(record_shapes=True) as p:
        for _ in range(3):
            y = wend.tanh(x * 2).sum()
        y.item()
    found = {(row.key, str(row.input_shapes)): row.count for row in p.key_averages(True)}
    assert found["aten::tanh", "[[6, 8]]"] == 3
    assert found["aten::mul", "[[6, 8], []]"] == 3
    table = p.key_averages().table(sort_by="cpu_time_total", row_limit=3)
    assert table.count("\n") == 8 and "Self CPU time total" in table
    assert "aten::" in p.key_averages().table()


OPS = {
    "exp": lambda t, x: t.exp(x),
    "mul": lambda t, x: x * x,
    "add": lambda t, x: x + x,
    "matmul": lambda t, x: x @ x.T,
    "relu": lambda t, x: t.relu(x),
    "softmax": lambda t, x: t.softmax(x, 1),
    "cat": lambda t, x: t.cat([x, x]),
    "sum": lambda t, x: x.sum(0),
    "linear": lambda t, x: t.nn.functional.linear(x, x),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (8,)),
}


@pytest.mark.parametrize("name", OPS)
def test_counts_and_shapes_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    rows = {}
    for library in (torch, wend):
        x = library.tensor(DATA)
        kinds = library.profiler
        with kinds.profile(activities=[kinds.ProfilerActivity.CPU], record_shapes=True) as p:
            kept = [OPS[name](library, x) for _ in range(4)]
        averages = p.key_averages(group_by_input_shape=True)
        rows[library.__name__] = [
            (row.key, row.count, [s for s in row.input_shapes if s and not isinstance(s[0], list)])
            for row in averages
            if row.key == f"aten::{name}"
        ]
        del kept
    assert len(rows["wend"]) == 1
    if name == "cat":  # PyTorch has a list of shapes there
        assert [row[:2] for row in rows["wend"]] == [row[:2] for row in rows["torch"]]
    else:
        assert rows["wend"] == rows["torch"]


def test_flops_are_pytorchs():
    torch = pytest.importorskip("torch")
    found = {}
    for library in (torch, wend):
        x, w = library.tensor(DATA), library.ones(4, 3, 3, 3)
        image = library.ones(2, 3, 9, 9)
        with library.profiler.profile(with_flops=True) as p:
            kept = [library.mm(x, x.T), library.nn.functional.conv2d(image, w)]
        rows = p.key_averages()
        found[library.__name__] = {
            kind: max(row.flops for row in rows if row.key.startswith(f"aten::{kind}"))
            for kind in ("mm", "conv2d")
            if any(row.key.startswith(f"aten::{kind}") for row in rows)
        }
        del kept
    assert found["wend"]["mm"] == found["torch"]["mm"] == 2 * 6 * 8 * 6
    assert found["wend"]["conv2d"] == found["torch"]["conv2d"]


def settings(name):
    return {
        "reference": {"compile": False},
        "machine code": {"compile": True, "wait": True, "deterministic": False},
        "default": {},
    }[name]


@pytest.mark.parametrize("tier", TIERS[:2])  # by default, time decides who computes
def test_results_are_the_same_bits(tier):
    results = []
    with config.override(**settings(tier)):
        for measured in (False, False, True):
            model, optimizer = make_model(tier)
            losses = [take_step(model, optimizer) for _ in range(4)]
            if measured:
                with profile(with_stack=True, profile_memory=True):
                    losses += [take_step(model, optimizer) for _ in range(4)]
            else:
                losses += [take_step(model, optimizer) for _ in range(4)]
            losses += [take_step(model, optimizer) for _ in range(2)]
            results.append((losses, [p.detach().numpy().tobytes() for p in model.parameters()]))
    assert results[1] == results[2]  # in the first run the paths are new


@pytest.mark.parametrize("tier", TIERS)
def test_the_trace_is_nested_and_its_slices_add_up(tier, tmp_path):
    model, optimizer = make_model(tier)
    with config.override(**settings(tier)):
        for _ in range(4):
            take_step(model, optimizer)
        with profile(
            schedule=schedule(wait=0, warmup=0, active=3, repeat=1), with_modules=True
        ) as p:
            for _ in range(3):
                take_step(model, optimizer)
                p.step()
    trace = trace_of(p, tmp_path / "t.json")
    assert trace["schemaVersion"] == 1 and trace["with_modules"] == 1
    for event in trace["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        assert event["ph"] in ("X", "M", "i")
    events = complete(trace)
    assert all(isinstance(e["ts"], float) and e["dur"] >= 0 for e in events)
    pairs = check_nesting(events)
    around = {(inner["args"]["kind"], outer["args"]["kind"]) for inner, outer in pairs}
    assert ("module", "user") in around  # the model within the stretch
    assert ("module", "module") in around
    assert ("flush", "optimizer") in around
    assert ("numpy" if tier == "reference" else "kernel", "flush") in around or tier == "default"
    outer = {id(pair[1]) for pair in pairs}
    for number in range(3):
        (step,) = [e for e in events if e["name"] == f"ProfilerStep#{number}"]
        begin = nanoseconds(step["ts"])
        end = begin + nanoseconds(step["dur"])
        leaves = [
            e
            for e in events
            if e["tid"] == step["tid"]
            and id(e) not in outer
            and begin <= nanoseconds(e["ts"]) < end
        ]
        total = sum(e["dur"] for e in leaves)
        assert 0.95 * step["dur"] <= total <= 1.0001 * step["dur"]


def test_a_kernel_tells_its_lines_with_shares_that_add_up(tmp_path):
    x = wend.tensor(DATA)

    def run():
        y = wend.tanh(x)
        z = (y * 2).sum()
        z.item()

    with config.override(compile=True, wait=True, deterministic=False):
        for _ in range(6):  # planning takes slices of time, and may last some visits
            run()
        with profile() as p:
            run()
    kernels = [
        e for e in complete(trace_of(p, tmp_path / "t.json")) if e["args"]["kind"] == "kernel"
    ]
    assert len(kernels) == 1
    lines = kernels[0]["args"]["lines"]
    assert len(lines) == 2 and all("test_profiler.py" in line for line in lines)
    shares = [float(line.split("%")[0]) for line in lines]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert kernels[0]["args"]["flops"] > 0 and kernels[0]["args"]["bytes"] >= DATA.nbytes
    # the ops share the time of the kernel
    times = {e.name: e.cpu_time_total for e in p.events() if e.name.startswith("aten::")}
    assert sum(times.values()) == pytest.approx(kernels[0]["dur"], abs=0.001)  # whole ns


def test_self_times_add_up_to_the_whole():
    model, optimizer = make_model()
    take_step(model, optimizer)
    with profile(with_modules=True) as p, record_function("all"):
        for _ in range(2):
            take_step(model, optimizer)
    (whole,) = [e for e in p.events() if e.name == "all"]
    inside = sum(e.self_cpu_time_total for e in p.events())
    assert inside == pytest.approx(whole.time_range.elapsed_us(), rel=0.05)
    averages = p.key_averages()
    assert averages.self_cpu_time_total == pytest.approx(inside)
    assert averages.total_average().count == sum(row.count for row in averages)


def test_a_stretch_has_the_time_of_its_ops_that_are_computed_later():
    x = wend.tensor(DATA)
    with profile() as p:
        with record_function("recording"):
            y = wend.tanh(x).sum()
        with record_function("reading"):
            y.item()
    events = {e.name: e for e in p.events()}
    ops = sum(e.cpu_time_total for e in p.events() if e.name.startswith("aten::"))
    stretch = events["recording"]
    assert stretch.cpu_time_total == pytest.approx(stretch.time_range.elapsed_us() + ops)
    assert events["reading"].cpu_time_total == events["reading"].time_range.elapsed_us()


def test_the_limit_of_bytes_keeps_whole_steps(tmp_path):
    x = wend.tensor(DATA)
    with profile(schedule=schedule(wait=0, warmup=0, active=20, repeat=1)) as p:
        for _ in range(20):
            wend.tanh(x * 2).sum().item()
            p.step()
    whole = tmp_path / "whole.json"
    everything = trace_of(p, whole)
    size = whole.stat().st_size
    cut = trace_of(p, tmp_path / "cut.json", max_bytes=size // 2)
    assert (tmp_path / "cut.json").stat().st_size <= size // 2
    names = [e["name"] for e in complete(cut) if e["args"]["kind"] == "step"]
    assert names == [f"ProfilerStep#{k}" for k in range(len(names))] and 4 < len(names) < 12
    kept = complete(cut)
    assert kept == complete(everything)[: len(kept)]
    (note,) = [e["name"] for e in cut["traceEvents"] if e["ph"] == "i"]
    assert note.startswith(f"{20 - len(names)} steps left out")
    assert trace_of(p, tmp_path / "free.json", max_bytes=None) == everything


def test_names_are_escaped_and_files_compressed(tmp_path):
    name = 'a "name"\\ with\nlines, ü and \x01'
    with profile() as p, record_function(name):
        wend.ones(2).sum().item()
    p.add_metadata("who", 'me"')
    p.add_metadata_json("rank", "[1, 2]")
    trace = trace_of(p, tmp_path / "t.json")
    assert name in [e["name"] for e in complete(trace)]
    assert trace["who"] == 'me"' and trace["rank"] == [1, 2]
    p.export_chrome_trace(str(tmp_path / "t.json.gz"))
    with gzip.open(tmp_path / "t.json.gz", "rt", encoding="utf-8") as file:
        assert json.load(file) == trace
    text = (tmp_path / "t.json").read_text()
    times = [part.split(",")[0].split("}")[0] for part in text.split('"ts": ')[1:]]
    assert all(len(time.strip().split(".")[1]) == 3 for time in times)


def test_threads_have_tracks_of_their_own(tmp_path):
    def work():
        with record_function("in a thread"):
            wend.tanh(wend.tensor(DATA)).sum().item()

    with profile() as p:
        threads = [threading.Thread(target=work, name=f"worker {k}") for k in range(3)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
    trace = trace_of(p, tmp_path / "t.json")
    events = complete(trace)
    check_nesting(events)
    assert len({e["tid"] for e in events if e["name"] == "in a thread"}) == 4
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {"worker 0", "worker 1", "worker 2"} <= names
    counts = {row.key: row.count for row in p.key_averages()}
    assert counts["aten::tanh"] == counts["in a thread"] == 4


def everything_tapped():
    from wend._engine.core._hot import Tensor
    from wend._engine.runtime.numpy_executor.plan import ReferencePlan
    from wend._engine.runtime.tiers import TieredPlan
    from wend.nn._base.hooked import HooksMixin
    from wend.optim import optimizer

    return [
        _hot.slot("execute"),
        _hot.slot("execute_many"),
        vars(Tensor).get("backward"),
        vars(HooksMixin)["_call_with_hooks"],
        vars(optimizer)["_take_step"],
        vars(ReferencePlan)["compute"],
        vars(TieredPlan)["compile"],
    ]


def test_exceptions_leave_nothing_behind():
    before = everything_tapped()

    class Bad(nn.Module):
        def forward(self, x):
            raise KeyError("bad")

    with pytest.raises(KeyError), profile(with_modules=True) as p, record_function("outer"):
        wend.ones(3).sum().item()
        Bad()(wend.ones(2))
    assert not RUNNING and session.users == 0
    assert everything_tapped() == before
    names = [e.name for e in p.events()]
    assert "outer" in names and "nn.Module: Bad" in names
    with (
        pytest.raises(wend.errors.WendError),
        profile() as p,
        record_function("failing"),
    ):
        wend.ones(2, 3) @ wend.ones(2, 3)
    assert "failing" in [e.name for e in p.events()]
    assert not RUNNING


def test_frames_get_their_own_steps_back():
    x = wend.tensor(DATA)

    def run():
        return wend.exp(x * 3).sum().item()

    with config.override(compile=True, wait=True, deterministic=False):
        for _ in range(6):  # planning takes slices of time, and may last some visits
            expected = run()
        plans = importlib_plans()
        before = [(id(f), f.steps) for plan in plans for f in frames_of(plan)]
        with profile():
            assert run() == expected
            clocked = [f.steps for plan in plans for f in frames_of(plan)]
        assert clocked != [steps for _, steps in before]
        assert [(id(f), f.steps) for plan in plans for f in frames_of(plan)] == before
        assert run() == expected


def importlib_plans():
    from wend._engine.runtime.compiled import plan

    return sorted(plan._BOUND.alive(), key=id)


def frames_of(plan):
    return list(plan.native_plan.frames.values())


GRID = list(itertools.product((0, 1, 2), (0, 1), (1, 2), (0, 1, 2), (0, 2), (0, 1)))


def test_schedules_are_pytorchs():
    torch = pytest.importorskip("torch")
    for wait, warmup, active, repeat, skip, first in GRID:
        given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat,
                 "skip_first": skip, "skip_first_wait": first}  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = schedule(**given), torch.profiler.schedule(**given)
        for step in range(14):
            assert ours(step).name == theirs(step).name, (given, step)


@pytest.mark.parametrize(
    "given",
    [
        {"wait": 1, "warmup": 1, "active": 2, "repeat": 2},
        {"wait": 0, "warmup": 0, "active": 1},
        {"wait": 0, "warmup": 1, "active": 3, "skip_first": 2},
        {"wait": 2, "warmup": 0, "active": 2, "repeat": 1},
    ],
    ids=str,
)
def test_cycles_are_pytorchs(given):
    torch = pytest.importorskip("torch")
    found = {}
    for library in (torch, wend):
        calls = []
        x = library.ones(3)

        def ready(p, calls=calls):
            steps = [(r.key, r.count) for r in p.key_averages() if r.key.startswith("Profiler")]
            calls.append((p.step_num, steps))

        kinds = library.profiler
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with kinds.profile(schedule=kinds.schedule(**given), on_trace_ready=ready) as p:
                for _ in range(9):
                    y = library.exp(x)
                    p.step()
                del y
        found[library.__name__] = calls
    assert found["wend"] == found["torch"]


def run_with_parts(parts):
    with profile(schedule=lambda k: parts[min(k, len(parts) - 1)]) as p:
        for _ in parts:
            p.step()


def test_a_bad_schedule_is_told():
    with pytest.warns(UserWarning, match="RECORD_AND_SAVE"):
        run_with_parts([ProfilerAction.RECORD, ProfilerAction.NONE])
    with pytest.warns(UserWarning, match="WARMUP to NONE"):
        run_with_parts([ProfilerAction.WARMUP, ProfilerAction.NONE])
    assert not RUNNING


def test_stacks(tmp_path):
    model, optimizer = make_model()
    with profile(with_stack=True) as p:
        take_step(model, optimizer)
    tanh = next(e for e in p.events() if e.name == "aten::tanh")
    assert "test_profiler.py" in tanh.stack[0] and tanh.stack[0].endswith("): take_step")
    assert any(frame.endswith("test_stacks") for frame in tanh.stack)
    p.export_stacks(str(tmp_path / "s.txt"))
    lines = (tmp_path / "s.txt").read_text().splitlines()
    assert lines and all(int(line.rpartition(" ")[2]) > 0 for line in lines)
    grouped = p.key_averages(group_by_stack_n=1)
    assert any("take_step" in row.stack[0] for row in grouped if row.stack)
    with pytest.raises(wend.errors.ArgumentError, match="metric"):
        p.export_stacks(str(tmp_path / "s.txt"), "speed")
    with profile() as p:
        pass
    with pytest.raises(wend.errors.ArgumentError, match="with_stack"):
        p.export_stacks(str(tmp_path / "s.txt"))


def test_handler_for_tensorboard(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path), "w", True)):
        wend.ones(2).sum().item()
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("w.") and path.name.endswith(".pt.trace.json.gz")
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="cannot be made"):
        tensorboard_trace_handler(str(tmp_path / "file" / "inner"))(None)


def test_the_older_profiler():
    with autograd_profiler.profile(record_shapes=True) as p:
        wend.exp(wend.ones(3)).sum().item()
    assert any(e.name == "aten::exp" for e in p.function_events)
    assert p.self_cpu_time_total > 0 and "aten::exp" in p.table() and "aten::exp" in str(p)
    assert p.total_average().count == sum(e.count for e in p.function_events)
    with pytest.raises(RuntimeError, match="entered before"), p:
        pass
    with autograd_profiler.profile(enabled=False) as off:
        wend.ones(2).sum().item()
    assert off.function_events is None and not RUNNING
    with pytest.raises(RuntimeError, match="nothing was measured"):
        off.key_averages()


def test_nested_profilers_see_their_own_time():
    x = wend.ones(4)
    with profile() as outer:
        wend.exp(x).sum().item()
        with profile() as inner:
            wend.sin(x).sum().item()
        wend.cos(x).sum().item()
    assert not RUNNING
    seen = [{e.name for e in p.events()} for p in (outer, inner)]
    assert {"aten::exp", "aten::sin", "aten::cos"} <= seen[0]
    assert "aten::sin" in seen[1] and not {"aten::exp", "aten::cos"} & seen[1]


def test_collection_can_pause():
    x = wend.ones(4)
    with profile() as p:
        wend.exp(x).sum().item()
        p.toggle_collection_dynamic(False, [])
        assert not RUNNING
        wend.sin(x).sum().item()
    names = {e.name for e in p.events()}
    assert "aten::exp" in names and "aten::sin" not in names


def test_execution_traces(tmp_path):
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
    assert observer.is_registered and not observer.is_running()
    with profile(execution_trace_observer=observer):
        assert observer.is_running()
        wend.exp(wend.ones(3)).sum().item()
    observer.unregister_callback()
    nodes = json.loads((tmp_path / "et.json").read_text())["nodes"]
    assert {"aten::exp", "aten::sum"} <= {node["name"] for node in nodes}
    ids = {node["id"] for node in nodes} | {0}
    assert all(node["ctrl_deps"] in ids for node in nodes)


def test_names_beside_the_profiler():
    unique = autograd_profiler.EnforceUnique()
    unique.see("a", 1)
    with pytest.raises(RuntimeError, match="duplicate"):
        unique.see("a", 1)
    tracker = autograd_profiler.KinetoStepTracker
    first = tracker.current_step()
    assert tracker.increment_step("test") == first + 1 == tracker.current_step()
    assert tracker.erase_step_count("test") and not tracker.erase_step_count("test")
    with pytest.raises(NotImplementedError):
        autograd_profiler.load_nvprof("x")
    with autograd_profiler.emit_itt() as e, autograd_profiler.emit_nvtx(enabled=False):
        pass
    with pytest.raises(RuntimeError, match="entered before"), e:
        pass
