"""Time by line and module, memory by owner and line, and who holds the memory now."""

import gc
import gzip
import json
import re
import subprocess
import sys

import pytest

import wend
from wend import nn
from wend._engine.base import config
from wend.debug import memory
from wend.profiler import profile, record_function
from wend.utils.data import DataLoader, TensorDataset

MACHINE_CODE = {"compile": True, "wait": True, "deterministic": False}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        return wend.tanh(self.inner(x))  # the block's own line


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.second(self.first(x)))


#: The paths of other tests may have sealed the trie, or be compiled already.
pytestmark = pytest.mark.usefixtures("own_trie")


def train(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def line_of(text):
    with open(__file__) as file:
        return next(k for k, line in enumerate(file, 1) if text in line)


@pytest.mark.parametrize("settings", [{"compile": False}, MACHINE_CODE], ids=["numpy", "code"])
def test_time_by_line_and_module_is_a_sum(settings):
    wend.manual_seed(0)
    model = Model()
    if settings.get("compile"):
        model.head = nn.Linear(16, 2)  # a path of its own: see `test_profiler.make_model`
        model.second = nn.Sequential(Block(), nn.ReLU())
    optimizer = wend.optim.SGD(model.parameters(), lr=0.01)
    x = wend.ones(4, 16)
    with config.override(**settings):
        for _ in range(3):
            train(model, optimizer, x)
        with profile() as p:
            for _ in range(2):
                train(model, optimizer, x)
    whole = (p._recording.window.end - p._recording.window.start) / 1e3
    lines, modules = p.by_line(), p.by_module()
    for table in (lines, modules):
        assert table.total_us == pytest.approx(whole, rel=0.02)
        assert "own %" in str(table) and str(table).count("\n") == len(table) + 1
    own = f"test_profiler_tables.py:{line_of('block' + chr(39) + 's own line')} in Block.forward"
    found = {row.where.rpartition("/")[2]: row for row in lines}
    assert own in found and f"{own} (backward)" in found
    assert found[own].own_us > 0 and found[f"{own} (backward)"].own_us > 0
    rows = {row.where: row for row in modules}
    root = rows["Model"]
    assert root.backward_us > 0
    inner = [row for name, row in rows.items() if name in ("first", "second", "head")]
    assert len(inner) == 3
    assert root.total_us == pytest.approx(sum(r.total_us for r in inner) + root.own_us)
    assert rows["first"].total_us == pytest.approx(
        rows["first"].own_us + rows["first.inner"].total_us
    )
    assert rows["first.inner"].calls > 0 and rows["first.inner"].flops >= 2 * 2 * 4 * 16 * 16


def test_modules_are_rows_if_asked_for():
    model = Model()
    with profile(with_modules=True) as p:
        model(wend.ones(2, 16)).sum().item()
    names = [row.key for row in p.key_averages()]
    assert "nn.Module: Block" in names and "nn.Module: Model" in names
    linear = next(e for e in p.events() if e.name == "aten::linear")
    assert linear.module == "first.inner"
    with profile() as p:
        model(wend.ones(2, 16)).sum().item()
    assert not any(row.key.startswith("nn.Module") for row in p.key_averages())


def test_loaders_and_optimizers_have_pytorchs_names():
    torch = pytest.importorskip("torch")
    found = {}
    for library in (torch, wend):
        data = library.utils.data
        loader = data.DataLoader(data.TensorDataset(library.ones(6, 3)), batch_size=2)
        weight = library.nn.Parameter(library.ones(3))
        optimizer = library.optim.SGD([weight], lr=0.1)
        with library.profiler.profile() as p:
            for (x,) in loader:
                (x * weight).sum().backward()
                optimizer.step()
        wanted = ("enumerate(DataLoader)", "Optimizer.step")
        found[library.__name__] = sorted(
            (row.key, row.count) for row in p.key_averages() if row.key.startswith(wanted)
        )
    assert found["wend"] == found["torch"] and len(found["wend"]) == 2


def test_loaders_of_wend_are_found():
    loader = DataLoader(TensorDataset(wend.ones(4, 2)), batch_size=2)
    with profile() as p:
        batches = list(loader)
    assert len(batches) == 2
    rows = {row.key: row.count for row in p.key_averages()}
    assert rows["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == 3


def test_memory_by_op_and_line():
    x = wend.ones(1000)
    x.sum().item()
    # A group's results share their memory, which is free when the last of them is.
    with config.override(autobatch=False), profile(profile_memory=True) as p:
        kept = wend.exp(x)  # the line that keeps
        kept.sum().item()
        lost = wend.sin(wend.ones(2_000_000))  # far more than other tests may hold
        lost.sum().item()
        del lost
        gc.collect()
        after = wend.cos(x)
        after.sum().item()
    rows = {row.key: row.cpu_memory_usage for row in p.key_averages()}
    assert rows["aten::exp"] == rows["aten::cos"] == 4000 and rows["aten::sin"] == 8_000_000
    assert "CPU Mem" in p.key_averages().table() and "7.63 MB" in p.key_averages().table()
    report = p.memory()
    where = f"exp at {__file__}:{line_of('the line that keeps')} in test_memory_by_op_and_line"
    at_end = {row.where: row for row in report.at_end}
    assert at_end[where].bytes == 4000 and at_end[where].count == 1
    sine = f"sin at {__file__}"  # other tests may hold sines
    assert not any(name.startswith(sine) for name in at_end)
    assert any(row.where.startswith(sine) for row in report.at_peak)
    assert sum(row.bytes for row in report.at_peak) == report.peak
    assert any(row.where.startswith(sine) and row.bytes == 8_000_000 for row in report.allocated)
    assert "peak:" in str(report) and "allocated meanwhile" in str(report)
    assert report.timeline[-1][1] == sum(row.bytes for row in report.at_end)
    del kept, after


def test_memory_that_was_there_before_has_its_owner(tmp_path):
    model = Model()
    optimizer = wend.optim.Adam(model.parameters())
    x = wend.ones(4, 16)
    train(model, optimizer, x)
    with profile(profile_memory=True) as p:
        train(model, optimizer, x)
    owners = {row.owner for row in p.memory().at_peak}
    assert "parameters: weight of Linear" in owners
    assert "state of optimizers: exp_avg of Adam" in owners
    p.export_memory_timeline(str(tmp_path / "m.json"))
    times, sizes = json.loads((tmp_path / "m.json").read_text())
    assert len(times) == len(sizes) and max(sizes) == p.memory().peak
    p.export_memory_timeline(str(tmp_path / "m.json.gz"))
    with gzip.open(tmp_path / "m.json.gz", "rt") as file:
        assert json.load(file) == [times, sizes]
    with pytest.raises(wend.errors.ArgumentError, match=r"\.json"):
        p.export_memory_timeline("m.html")
    with profile() as p:
        pass
    with pytest.raises(RuntimeError, match="profile_memory"):
        p.memory()


def test_who_holds_the_memory_now():
    model = Model()
    optimizer = wend.optim.Adam(model.parameters())
    train(model, optimizer, wend.ones(4, 16))
    kept = wend.ones(300, 16) * 2
    kept.sum().item()
    hidden = model.first(kept)
    hidden.sum().item()
    held = memory()
    owners = held.by_owner()
    weights = sum(p.nbytes for n, p in model.named_parameters() if n.endswith("weight"))
    assert owners["parameters: weight of Linear"] >= weights
    assert owners["state of optimizers: exp_avg of Adam"] >= weights
    assert owners["gradients"] >= weights
    assert owners["kept for backward"] >= 300 * 16 * 4
    assert any("Block.forward" in row.where for row in held.rows)
    assert held.total == sum(owners.values()) == sum(row.bytes for row in held.rows)
    assert "held now" in str(held) and "<table>" in held._repr_html_()
    del kept, hidden


def test_errors_for_lack_of_memory_tell_the_holders():
    model = Model()
    optimizer = wend.optim.Adam(model.parameters())
    train(model, optimizer, wend.ones(4, 16))
    held = wend.ones(1 << 20) + 1
    held.sum().item()
    with pytest.raises(RuntimeError, match="held now") as caught:
        wend.zeros(10**16).numpy()  # a sum would be one kernel, which needs no memory
    (size,) = re.findall(r"(\d+\.\d) MB: tensors without a history", str(caught.value))
    assert float(size) >= held.nbytes / 1e6 - 0.05  # other tests may hold some, too


def test_fibers_have_tracks_of_their_own(tmp_path):
    cell, head = nn.GRUCell(4, 8), nn.Linear(8, 1)

    def run(n):
        h = wend.zeros(1, 8)
        for k in range(n):
            with record_function("cell"):
                h = cell(wend.full((1, 4), float(k)), h)
            if float(h.sum()) > 100:
                break
        return head(h).sum()

    def together():
        return [float(y) for y in wend.batched(run)([2, 3, 4, 2])]

    with config.override(autobatch=True, deterministic=False, weigh=False):
        before = together()
        with profile(with_modules=True) as p:
            during = together()
    assert during == pytest.approx(before)
    p.export_chrome_trace(str(tmp_path / "t.json"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    cells = [e for e in events if e["ph"] == "X" and e["name"] == "cell"]
    assert len(cells) == 11 and len({e["tid"] for e in cells}) == 4
    tracks = {}
    for e in (e for e in events if e["ph"] == "X"):
        tracks.setdefault(e["tid"], []).append((round(e["ts"] * 1e3), round(e["dur"] * 1e3)))
    for rows in tracks.values():
        rows.sort(key=lambda row: (row[0], -row[1]))
        ends = []
        for begin, size in rows:
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or begin + size <= ends[-1]
            ends.append(begin + size)
    counts = {row.key: row.count for row in p.key_averages()}
    assert counts["aten::gru_cell"] == 11 and counts["aten::linear"] == 4


#: In a process of its own: whether groups run a flush depends on all that was computed before.
TREES = """
import numpy as np
import pytest
import wend
from wend import nn
from wend._engine.base import config
from wend.profiler import profile

rng = np.random.default_rng(0)
leaf, inner = nn.Linear(4, 8), nn.Linear(16, 8)
params = [*leaf.parameters(), *inner.parameters()]
optimizer = wend.optim.SGD(params, lr=0.01)

def tree(n):
    if n == 1:
        return wend.tanh(leaf(wend.ones(1, 4)))
    left = int(rng.integers(1, n))
    return wend.tanh(inner(wend.cat([tree(left), tree(n - left)], 1)))

def step():
    optimizer.zero_grad()
    loss = sum(tree(int(n)).sum() for n in rng.integers(20, 40, 8))
    loss.backward()
    optimizer.step()
    return loss.item()

with config.override(autobatch=True, deterministic=False):
    for _ in range(6):
        step()
    with profile(with_stack=True) as p:
        step()
rows = {row.key: row for row in p.key_averages()}
assert rows["aten::cat"].count > 100
assert rows["aten::cat"].cpu_time_total > 0 and rows["aten::linear"].cpu_time_total > 0
assert rows["backward::linear"].cpu_time_total > 0
table = p.by_line()
assert table.total_us == pytest.approx(
    (p._recording.window.end - p._recording.window.start) / 1e3, rel=0.02
)
"""


def test_structure_that_never_repeats_is_measured():
    subprocess.run([sys.executable, "-c", TREES], check=True)
