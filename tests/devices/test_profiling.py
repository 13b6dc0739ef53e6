"""Profilers: each launch of a device is an event on the row of its queue, with names and bytes."""

import json
from itertools import pairwise

import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.runtime.devices.queue import Accelerator, accelerator_at
from wend.profiler import (
    DeviceType,
    ProfilerActivity,
    profile,
    record_function,
    supported_activities,
)

pytestmark = pytest.mark.usefixtures("accelerator")


@pytest.fixture(autouse=True)
def _trie():
    with own_trie():
        yield


class Step:
    """A step of training: some launches, and a copy of the batch."""

    def __init__(self):
        torch.manual_seed(0)
        layers = nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)
        self.model = nn.Sequential(*layers).to("xpu")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batch = torch.rand(8, 16)
        torch.synchronize()

    def __call__(self):
        with record_function("forward"):
            loss = self.model(self.batch.to("xpu")).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @property
    def unit(self):
        return accelerator_at(next(self.model.parameters()).device)


def measured(step, n=2, **options):
    """(the profile of some steps, their launches)."""
    for _ in range(3):
        step()
    before = step.unit.launches
    with profile(**options) as prof:
        for _ in range(n):
            step()
    return prof, step.unit.launches - before


def test_activities_name_the_device():
    assert ProfilerActivity.XPU in supported_activities()


def test_each_launch_is_an_event_of_the_device():
    prof, launches = measured(Step())
    kernels = [e for e in prof.events() if e.device_type is DeviceType.XPU]
    copies = [e for e in kernels if e.name == "Memcpy HtoD"]
    kernels = [e for e in kernels if e.name != "Memcpy HtoD"]
    assert len(kernels) == launches > 4
    assert len(copies) == 2
    for e in kernels:
        assert (e.device_index, e.use_device, e.cpu_time_total) == (0, "xpu", 0)
        assert e.self_device_time_total == e.device_time_total == e.time_range.elapsed_us()
    flush = next(e for e in prof.events() if e.name == "wend::flush").time_range
    ends = max(e.time_range.end for e in prof.events() if e.name == "wend::flush")
    assert all(flush.start <= e.time_range.start <= e.time_range.end <= ends for e in kernels)
    rows = sorted((e.time_range.start, e.time_range.end) for e in kernels)
    assert all(a[1] <= b[0] + 1e-3 for a, b in pairwise(rows))  # in turn


def test_ops_share_the_time_of_their_kernels():
    prof, _ = measured(Step())
    sums = prof.key_averages()
    ops = [r for r in sums if r.key.startswith(("aten::", "backward::"))]
    kernels = [r for r in sums if r.device_type is DeviceType.XPU and r.key != "Memcpy HtoD"]
    whole = sum(r.self_device_time_total for r in kernels)
    assert whole > 0
    assert sum(r.self_device_time_total for r in ops) == pytest.approx(whole, rel=1e-6)
    rows = {r.key: r for r in sums}
    assert rows["wend::flush"].device_time_total == pytest.approx(whole, rel=1e-6)
    linear = rows["aten::linear"]
    assert linear.device_time == pytest.approx(linear.device_time_total / linear.count)
    assert rows["forward"].device_time_total > linear.device_time_total > 0
    assert rows["forward"].self_device_time_total == 0
    assert sums.self_device_time_total > whole  # the copies, too


def test_the_table_has_columns_of_the_device():
    prof, _ = measured(Step())
    table = prof.key_averages().table(sort_by="self_device_time_total", row_limit=3)
    for head in ("Self XPU", "Self XPU %", "XPU total", "XPU time avg"):
        assert head in table
    assert "Self XPU time total: " in table
    with profile() as other:
        torch.rand(4).sum().item()
    assert "XPU" not in other.key_averages().table()


def test_the_trace_has_a_row_for_the_queue(tmp_path):
    prof, launches = measured(Step())
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["args"]["name"]: e["tid"] for e in events if e["ph"] == "M"}
    row = [e for e in events if e.get("tid") == names["xpu:0 queue"] and e["ph"] == "X"]
    kernels = [e for e in row if e["cat"] == "kernel"]
    copies = [e for e in row if e["cat"] == "gpu_memcpy"]
    assert len(kernels) == launches
    assert len(row) == launches + 2
    assert {e["args"]["bytes"] for e in copies} == {4 * 8 * 16}
    first = kernels[0]["args"]
    assert first["device"] == "xpu:0"
    assert first["bytes"] > 0
    assert any("test_profiling.py" in line for line in first["lines"])
    others = {e["tid"] for e in events if e["ph"] == "X" and e["cat"] == "cpu_op"}
    assert names["xpu:0 queue"] not in others


def test_times_of_lines_add_up_without_the_device():
    prof, _ = measured(Step())
    recording = sum(t.slice.end - t.slice.begin for t in prof.slices() if t.slice.kind == "profile")
    assert prof.by_line().total_us == pytest.approx(recording / 1e3, rel=1e-3)


def test_results_are_the_same_and_nothing_is_left_behind():
    plain, watched = Step(), Step()
    start, copied = Accelerator.start, Accelerator.copied
    losses = [plain() for _ in range(5)]
    mine = [watched() for _ in range(3)]
    with profile():
        mine += [watched() for _ in range(2)]
    assert mine == losses
    assert (Accelerator.start, Accelerator.copied) == (start, copied)


def test_host_steps_have_no_time_of_the_device():
    x = torch.rand(64, 64).to("xpu")
    for _ in range(3):
        torch.linalg.qr(torch.tanh(x)).R.sum().item()
    with profile() as prof:
        torch.linalg.qr(torch.tanh(x)).R.sum().item()
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::linalg_qr"].device_time_total == 0
    assert rows["aten::tanh"].device_time_total > 0
