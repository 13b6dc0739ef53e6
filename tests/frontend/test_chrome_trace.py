"""Chrome traces: schema of each event, nesting on each track, PyTorch's plugin of TensorBoard."""

import json
import math
import threading

import pytest

import wend
from wend import nn
from wend.profiler import profile, record_function, schedule, tensorboard_trace_handler

pytestmark = pytest.mark.usefixtures("own_trie")

#: Fields of an event by its phase: (name, types).  Times are microseconds.
FIELDS = {
    "X": {
        "name": str, "cat": str, "pid": int, "tid": int, "ts": float, "dur": float, "args": dict,
    },
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "i": {"name": str, "s": str, "pid": int, "tid": int, "ts": float},
}  # fmt: skip


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf, self.join, self.top = nn.Embedding(5, 4), nn.Linear(8, 4), nn.Linear(4, 2)

    def state(self, tree):
        if isinstance(tree, int):
            return self.leaf(wend.tensor([tree]))
        return self.join(wend.cat([self.state(part) for part in tree], 1)).tanh()

    def forward(self, tree):
        return self.top(self.state(tree))


TREES = [1, (1, 2), ((0, 1), 2), (3, (4, (0, 1)))]


def step(model, optimizer, k):
    with record_function("forward"):
        loss = model(TREES[k % len(TREES)]).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def recorded(folder, steps=8, **options):
    """The file of a run with all that a profiler can ask for, and two threads."""
    model = Tree()
    optimizer = wend.optim.Adam(model.parameters())
    plan = schedule(wait=1, warmup=1, active=steps, repeat=1)
    with profile(
        schedule=plan, on_trace_ready=tensorboard_trace_handler(str(folder), "worker"),
        record_shapes=True, profile_memory=True, with_stack=True, with_flops=True,
        with_modules=True, **options,
    ) as p:  # fmt: skip
        for k in range(steps + 2):
            other = threading.Thread(target=lambda: wend.ones(3).exp().sum().item())
            step(model, optimizer, k)
            other.start()
            other.join()
            p.step()
    (path,) = folder.iterdir()
    return p, path


def fault(event):
    """Why an event is none of the format, or ""."""
    fields = FIELDS.get(event.get("ph"))
    if fields is None:
        return "an unknown phase"
    for name, kind in fields.items():
        if type(event.get(name)) is not kind:
            return f"{name} is {event.get(name)!r}"
    further = event.keys() - fields.keys() - {"ph"}
    if further:
        return f"unknown fields {further}"
    times = [event[name] for name in ("ts", "dur") if name in event]
    if not all(math.isfinite(t) and t >= 0 for t in times):
        return f"times {times}"
    return "" if event["name"] else "no name"


def test_each_event_fits_the_format(tmp_path):
    _, path = recorded(tmp_path)
    trace = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms"
    events = trace["traceEvents"]
    assert len(events) > 300
    assert [(fault(e), e) for e in events if fault(e)] == []
    kinds = {e["args"]["kind"] for e in events if e["ph"] == "X"}
    assert {"step", "user", "module", "backward", "optimizer", "flush"} <= kinds
    assert kinds & {"numpy", "kernel"}
    tracks = {e["tid"] for e in events if e["ph"] == "X"}
    assert len(tracks) >= 2 and tracks == {e["tid"] for e in events if e["ph"] == "M"}


def test_faults_would_be_found():
    good = {"ph": "X", "name": "n", "cat": "c", "pid": 1, "tid": 1, "ts": 0.5, "dur": 0.0}
    good["args"] = {}
    assert fault(good) == ""
    for change in (
        {"ph": "B"}, {"ts": "0"}, {"dur": -1.0}, {"ts": math.inf}, {"tid": None}, {"name": ""},
        {"extra": 1},
    ):  # fmt: skip
        assert fault(good | change), change


def test_slices_are_nested_on_each_track(tmp_path):
    """Each slice ends within the one around it: what Perfetto asks of complete events."""
    _, path = recorded(tmp_path)
    tracks = {}
    for e in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
        if e["ph"] == "X":
            begin, length = round(e["ts"] * 1e3), round(e["dur"] * 1e3)
            tracks.setdefault((e["pid"], e["tid"]), []).append((begin, -length, e))
    deepest = 0
    for rows in tracks.values():
        around = []
        for begin, length, event in sorted(rows, key=lambda row: row[:2]):
            while around and around[-1][0] <= begin:
                around.pop()
            assert not around or begin - length <= around[-1][0], (event, around[-1][1])
            around.append((begin - length, event))
            deepest = max(deepest, len(around))
    assert deepest >= 5  # the profile, a step, a stretch, a module, and what runs there


@pytest.mark.parametrize("share", [0.9, 0.5, 0.2])
def test_a_cut_file_is_whole_json_below_the_limit(tmp_path, share):
    p, path = recorded(tmp_path / "whole")
    most = int(path.stat().st_size * share)
    p.export_chrome_trace(str(tmp_path / "cut.json"), max_bytes=most)
    text = (tmp_path / "cut.json").read_text(encoding="utf-8")
    assert len(text.encode()) <= most
    events = json.loads(text)["traceEvents"]
    assert [e for e in events if fault(e)] == []
    (note,) = [e for e in events if e["ph"] == "i"]
    assert "steps left out" in note["name"]
    steps = [e for e in events if e["name"].startswith("ProfilerStep#")]
    assert len(steps) < 8


def test_the_reader_of_tensorboard_finds_steps_and_ops(tmp_path):
    """The plugin that TensorBoard shows PyTorch's traces by."""
    pytest.importorskip("torch_tb_profiler", reason="reads traces for TensorBoard")
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    p, path = recorded(tmp_path)
    data = RunProfileData.parse("worker", "span", str(path), str(tmp_path))
    assert data.steps_names == [str(k) for k in range(2, 10)]
    measured = {e.trace_name: e.cpu_time_total for e in p.events() if e.name == "ProfilerStep*"}
    for k, costs in zip(range(2, 10), data.steps_costs, strict=True):
        assert costs.costs[-1] == pytest.approx(measured[f"ProfilerStep#{k}"], rel=1e-3)
    run = RunGenerator("worker", "span", data).generate_run_profile()
    calls = {row["name"]: row["calls"] for row in run.operation_table_by_name["data"]}
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    slices = [e["name"] for e in events if e["ph"] == "X" and e["cat"] == "cpu_op"]
    assert calls and calls == {name: slices.count(name) for name in calls}
    assert sum(calls.values()) == len(slices)
    assert {view.name for view in run.views} >= {"overall", "operator", "trace"}
