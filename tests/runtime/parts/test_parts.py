"""New paths run as sequences of parts: results, borders, and who computes."""

import random
import time
from pathlib import Path

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.base import config
from wend._engine.compiler.llvm_ir import jit
from wend._engine.core import _hot
from wend._engine.runtime import flush
from wend._engine.runtime.batching import group_choice, signatures
from wend._engine.runtime.compiled import plan
from wend._engine.runtime.flush_log import last_step
from wend._engine.runtime.parts import links, parts
from wend.nn import functional as F

WIDTH, BATCH = 6, 3
pytestmark = pytest.mark.skipif(not parts.CUTS, reason="the uncompiled core cuts no flushes")


@pytest.fixture(autouse=True)
def _own_paths():
    with own_trie(), config.override(compile=True, wait=False, deterministic=False):
        yield


class Net(nn.Module):
    """A recurrent net written as a loop."""

    def __init__(self):
        super().__init__()
        self.input = nn.Linear(WIDTH, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 2)
        rng = np.random.default_rng(0)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.tensor(rng.normal(size=tuple(p.shape)).astype("f") * 0.4))

    def cell(self, x, h):
        return torch.tanh(self.input(x) + self.hidden(h))

    def forward(self, words):
        h = torch.zeros(BATCH, WIDTH)
        for t in range(words.shape[0]):
            h = self.cell(words[t], h)
        return self.head(h)


def sentences(rng, n):
    """So many words and their classes."""
    return torch.tensor(rng.normal(size=(n, BATCH, WIDTH)).astype("f")), torch.tensor([0, 1, 1])


def ragged(net, rng, draw):
    """A loss of a sentence of a drawn length."""
    x, y = sentences(rng, draw.randint(3, 9))
    return F.cross_entropy(net(x), y)


def parsed(net, rng, draw):
    """A loss of a tree that a stack has made, of a drawn shape."""
    waiting = [torch.tensor(rng.normal(size=(1, WIDTH)).astype("f")) for _ in range(6)]
    stack = []
    while waiting or len(stack) > 1:
        if len(stack) > 1 and (not waiting or draw.random() < 0.5):
            right, left = stack.pop(), stack.pop()
            stack.append(net.cell(left, right))
        else:
            stack.append(waiting.pop())
    return F.cross_entropy(net.head(stack[0]), torch.tensor([1]))


def branched(net, rng, draw):
    """A loss of a net whose layers are drawn, with writes in place."""
    h = torch.tensor(rng.normal(size=(BATCH, WIDTH)).astype("f"))
    for _ in range(draw.randint(3, 8)):
        if draw.random() < 0.5:
            h = h + torch.relu(net.input(h)) * 0.5
        else:
            h = h * 0.9 + torch.tanh(net.hidden(h))
            h[:, 0] = 0.25
    return F.cross_entropy(net.head(h), torch.tensor([0, 1, 1]))


def trained(loss, steps=12, batches=1, read=False):
    """The parameters after some steps, each of the gradients of so many losses."""
    net, rng, draw = Net(), np.random.default_rng(1), random.Random(2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(batches):
            made = loss(net, rng, draw) / batches
            if read:
                made.item()
            made.backward()
        optimizer.step()
    return [p.detach().numpy().copy() for p in net.parameters()]


def ran():
    """Who computed the flushes of the last step."""
    return {next(name for name, why in row.asked if not why) for row in last_step()}


@pytest.mark.parametrize("batches", [1, 4])
@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("loss", [ragged, parsed, branched])
def test_training_in_parts_is_that_of_single_ops(loss, read, batches, monkeypatch):
    cut = []
    real = parts.run_parts
    monkeypatch.setattr(parts, "run_parts", lambda run: (cut.append(real(run)), cut[-1])[1])
    found = trained(loss, batches=batches, read=read)
    assert cut.count("") >= 5
    with torch.eager():
        expected = trained(loss, batches=batches, read=read)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6)


def test_look_ups_with_sparse_gradients(monkeypatch):
    cut = []
    real = parts.run_parts
    monkeypatch.setattr(parts, "run_parts", lambda run: (cut.append(real(run)), cut[-1])[1])
    found = []
    for sparse in (True, False):
        net, rng, draw = Net(), np.random.default_rng(1), random.Random(2)
        table = nn.Parameter(torch.tensor(rng.normal(size=(9, WIDTH)).astype("f")))
        optimizer = torch.optim.SGD([table, *net.parameters()], lr=0.1)
        for _ in range(12):
            optimizer.zero_grad()
            words = torch.tensor(rng.integers(0, 9, (draw.randint(3, 9), BATCH)))
            x = F.embedding(words, table, sparse=sparse)
            F.cross_entropy(net(x), torch.tensor([0, 1, 1])).backward()
            assert table.grad.is_sparse is sparse
            optimizer.step()
        found.append([table, *net.parameters()])
        assert cut.count("") >= 5
        cut.clear()
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=2e-6)


def test_off_the_trie_as_well():
    with own_trie(sealed=True):
        found = trained(parsed)
    with torch.eager():
        expected = trained(parsed)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6)


def test_a_new_length_runs_parts_that_have_come_before():
    net, rng = Net(), np.random.default_rng(0)
    with torch.no_grad():
        for n in (5, 6):
            net(sentences(rng, n)[0]).tolist()
        before = sum(1 for _ in flush.walk(parts.ROOT))
        x, _ = sentences(rng, 8)
        y = net(x)
        flushes = _hot.count("flushes")
        y.tolist()
    assert _hot.count("flushes") == flushes + 1  # a part is no flush of the program
    assert sum(1 for _ in flush.walk(parts.ROOT)) == before


def test_a_turn_begins_where_the_program_came_first():
    net = Net()
    x, _ = sentences(np.random.default_rng(0), 4)
    torch.synchronize()
    with torch.no_grad():
        net(x)
    trace = _hot.current_trace()
    cutter = parts._cutter.Cutter(trace, parts.ROOT)
    assert cutter.cut(parts.LEAST)
    names = [state.prim.name if hasattr(state.prim, "name") else "" for state in trace.states]
    firsts = [names[end] for end in cutter.ends[:-1]]
    assert len(firsts) == 3 and len(set(firsts)) == 1
    assert cutter.ends[-1] == len(names)


def test_what_runs_side_by_side_is_left_to_groups():
    net = Net()
    x, _ = sentences(np.random.default_rng(0), 60)
    with torch.no_grad():
        torch.stack([net.cell(word, word) for word in x]).tolist()
    assert ran() == {"groups"}


def test_hooks_keep_a_path_whole():
    net, seen = Net(), []
    x, y = sentences(np.random.default_rng(0), 5)
    h = torch.zeros(BATCH, WIDTH)
    for word in x:
        h = net.cell(word, h)
        h.register_hook(seen.append)
    F.cross_entropy(net.head(h), y).backward()
    assert len(seen) == 5
    assert all("parts" not in [n for n, why in row.asked if not why] for row in last_step())


def test_values_between_parts_are_let_go():
    net = Net()
    x, _ = sentences(np.random.default_rng(0), 7)
    torch.synchronize()
    with torch.no_grad():
        y = net(x)
        values = _hot.current_trace().values  # the list: a copy would want each
        y.tolist()
    held = [v for v in values if v.buffer is not None and v.leaf is None and v is not y.value]
    assert held == [x.value]


def test_an_error_in_a_part_has_the_line_of_the_op():
    net = Net()
    x, _ = sentences(np.random.default_rng(0), 5)
    h, table = torch.zeros(BATCH, WIDTH), torch.zeros(4, WIDTH)
    with torch.no_grad():
        for word in x:
            h = net.cell(word, h)
            rows = torch.zeros(3, dtype=torch.int64) + 9
            h = h + F.embedding(rows, table)  # here
        with pytest.raises(IndexError) as caught:
            h.tolist()
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    line = next(k for k, text in enumerate(lines, 1) if text.endswith("# here"))
    assert f"test_parts.py:{line}" in str(caught.value)


def test_parts_that_never_come_back_are_cut_no_more():
    rng = random.Random(0)
    ops = [torch.tanh, torch.sin, torch.cos, torch.exp, torch.abs, torch.sigmoid, torch.relu]
    x = torch.ones(3)
    with torch.no_grad():
        for _ in range(12):
            y = x
            for _ in range(9):
                a, b, c, d, e = rng.choices(ops, k=5)
                y = e(d(c(b(a(y))))) * 0.5
            y.tolist()
    assert parts.PAUSES.next_pause > signatures.PAUSE


def test_sums_over_batches_end_their_paths_with_the_backward_pass():
    """Eight lengths in four batches are many paths; the parts are few."""
    net, rng, draw = Net(), np.random.default_rng(1), random.Random(2)
    made = []
    for k in range(60):
        for p in net.parameters():
            p.grad = None
        for _ in range(3):
            ragged(net, rng, draw).backward()
        net.input.weight.grad.sum().item()
        if k % 20 == 19:
            made.append(_hot.count("states"))
    assert made[2] - made[1] < 400


def visited(monkeypatch, times):
    """The seconds of visits by parts of a path that comes back, and the end of that path."""
    seconds, states = [], []
    end, asked = group_choice.Awaited.end_visit, parts.comes_back

    def end_visit(self, took, duration):
        end(self, took, duration)
        seconds.append(self.seconds)

    def comes_back(state):
        states.append(state)
        return asked(state)

    monkeypatch.setattr(group_choice.Awaited, "end_visit", end_visit)
    monkeypatch.setattr(parts, "comes_back", comes_back)
    # machine code comes late
    monkeypatch.setattr(group_choice.Awaited, "goes_on", goes_on_for_long)
    monkeypatch.setattr(parts, "is_worth_linking", lambda state: False)
    net, rng = Net(), np.random.default_rng(1)
    x, y = sentences(rng, 6)
    for _ in range(times):
        F.cross_entropy(net(x), y).backward()
        for _ in range(10):
            torch.ones(2).sum().item()
    return seconds, states[-1]


def goes_on_for_long(self):
    """Take a while over planning, with no machine code in the end."""
    self.waits, self.planning = True, 0.0
    before = time.perf_counter()
    time.sleep(0.002)
    self.planning = time.perf_counter() - before
    return True


def test_planning_is_no_part_of_the_duration_of_a_visit(monkeypatch):
    seconds, _ = visited(monkeypatch, 12)
    assert len(seconds) >= 5
    assert min(seconds) > 0


def test_a_path_that_comes_back_for_long_still_comes_back(monkeypatch):
    """Counts of visits are halved from time to time; flushes are counted for ever."""
    _, state = visited(monkeypatch, 400)
    assert state.passed < 200  # has been halved
    assert parts.OFTEN * state.passed < _hot.count("flushes")
    assert parts.comes_back(state)


def test_sums_over_batches_are_not_planned_as_wholes(monkeypatch, own_trie):
    """Four batches of drawn lengths hardly come back together, and each of them does.

    Whether a length gets a plan of its own or a link of its parts depends on what these take.
    """
    planned, sums, linked = [], [], set()
    compilation, link = plan.Compilation, links.LinkedPlan

    def begun(reference, offer=None):
        planned.append(len(reference.path.states))
        sums.append(sum(state.is_step for state in reference.path.states))
        return compilation(reference, offer)

    def joined(reference):
        linked.add(len(reference.path.states))
        return link(reference)

    monkeypatch.setattr(plan, "Compilation", begun)
    monkeypatch.setattr(links, "LinkedPlan", joined)
    net, rng, draw = Net(), np.random.default_rng(1), random.Random(2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for k in range(80):
        optimizer.zero_grad()
        for _ in range(4):
            loss = ragged(net, rng, draw)
            loss.backward()
        optimizer.step()
        loss.item()
        if k % 20 == 19:
            jit.drain()
    singles = {n for n, count in zip(planned, sums, strict=True) if count == 1} | linked
    assert len(singles) >= 7
    wholes = sum(count > 1 for count in sums)
    assert wholes <= 8 * 7  # several for each length, until their paths end with the backward pass


def tree(net, draw, n):
    """The state of a tree of n leaves of a drawn shape."""
    if n == 1:
        return torch.randn(1, WIDTH)
    k = draw.randint(1, n - 1)
    return net.cell(tree(net, draw, k), tree(net, draw, n - k))


@pytest.mark.parametrize(("leaves", "cut"), [(10, True), (60, False)])
def test_small_trees_run_in_parts_and_large_trees_in_groups(leaves, cut, monkeypatch):
    """Off the trie, where trees of ever new shapes end up."""
    declined = []
    real = parts.run_parts
    monkeypatch.setattr(
        parts, "run_parts", lambda run: (declined.append(real(run)), declined[-1])[1]
    )
    net, draw = Net(), random.Random(5)
    with own_trie(sealed=True):
        for _ in range(12):
            declined.clear()
            net.head(tree(net, draw, leaves)).sum().backward()
            torch.synchronize()
    assert ("" in declined) is cut


def test_a_path_that_comes_back_seldom_stays_with_parts_for_as_long_as_planning(monkeypatch):
    net, rng = Net(), np.random.default_rng(1)
    torch.synchronize()

    def visits(count):
        """How many visits of two lengths have run in parts."""
        found = 0
        for k in range(count):
            for p in net.parameters():
                p.grad = None
            x, y = sentences(rng, 8 + k % 2)
            F.cross_entropy(net(x), y).backward()
            found += "parts" in ran()
            torch.synchronize()
        return found

    monkeypatch.setattr(parts, "is_worth_linking", lambda state: False)
    monkeypatch.setattr(parts, "OFTEN", 0)  # any path comes back too seldom to be planned at once
    monkeypatch.setattr(parts, "PLANNING", 1e9)
    visits(4)
    assert visits(12) == 12
    states = flush.walk(_hot.current_trace().root)
    spent = [s.plans[parts.SPENT] for s in states if parts.SPENT in (s.plans or {})]
    assert len(spent) == 2 and min(spent) > 0
    monkeypatch.setattr(parts, "PLANNING", min(spent) / 1e6)
    assert visits(4) < 4
