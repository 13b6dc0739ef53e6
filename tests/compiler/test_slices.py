"""Planning in slices, and what runs without Python once a path is known."""

import gc
import threading

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.base.weak_objects import WeakObjects
from wend._engine.compiler import pipeline
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.schedule.fuse import MOST_OPS
from wend._engine.runtime import tiers
from wend._engine.runtime.compiled import arena, plan
from wend._engine.runtime.flush_log import last_plans
from wend._engine.runtime.native.launcher import launcher
from wend._engine.runtime.native.temporaries import ALIGNMENT
from wend._engine.transforms import quick


@pytest.fixture(autouse=True)
def in_the_background(groups_alone):
    """Plans are of whole paths, compiled in the background, on a trie of their own."""
    with own_trie(), config.override(compile=True, wait=False):
        yield


def chain(x, n):
    for _ in range(n):
        x = torch.tanh(x * 1.01) + 0.1
    return x


def last_plan():
    return last_plans()[-1]


def a_slice_each(monkeypatch):
    """Each flush plans a slice, as little as can be."""
    monkeypatch.setattr(tiers, "share_of", lambda plan: 1e-9)
    monkeypatch.setattr(tiers, "MOST_REST", 0.0)


def test_planning_rests_after_what_has_taken_long(monkeypatch):
    """Parts of slices that take longer than short flushes must not be taken in each of them."""
    now = [0.0]
    spent = []

    class Slow:
        planned = False

        def plan(self, seconds):
            spent.append(0.001)
            now[0] += 0.001

    monkeypatch.setattr(tiers.time, "perf_counter", lambda: now[0])
    for name in ("_planned_last", "_rests_until"):
        monkeypatch.setattr(tiers, name, 0.0)
    while now[0] < 1.0:
        now[0] += 0.0003  # a flush
        tiers.plan_a_slice(Slow(), tiers.LONGEST, tiers.SHARE)
    assert 0.08 <= sum(spent) <= 0.101


def test_passes_that_were_ended_half_way_begin_again(monkeypatch):
    """At the end of the stack the handler of a failure may fail, and the passes stay dead."""
    a_slice_each(monkeypatch)
    x = torch.linspace(-1, 1, 6)
    expected = chain(x, 20).tolist()
    for _ in range(4):
        chain(x, 20).tolist()
    plan = last_plan()
    cut = plan.compilation.work
    assert plan.compilation.code is None
    cut.close()
    chain(x, 20).tolist()
    assert plan.compilation.work is not cut
    jit.drain()
    np.testing.assert_allclose(chain(x, 20).tolist(), expected, rtol=1e-6)
    assert plan.compiled is not None and plan.fault is None


def test_a_flush_does_no_more_of_a_plan_than_its_share(monkeypatch):
    a_slice_each(monkeypatch)
    x = torch.linspace(-1, 1, 7)
    expected = chain(x, 20).tolist()
    for _ in range(6):
        assert chain(x, 20).tolist() == expected
    plan = last_plan()
    assert plan.compilation is not None and not plan.compilation.planned
    for _ in range(500):  # a slice each
        chain(x, 20).tolist()
        if plan.compilation is None or plan.compilation.planned:
            break
    assert plan.compiled is not None or plan.compilation.planned
    assert jit.drain(60)
    np.testing.assert_allclose(chain(x, 20).tolist(), expected, rtol=1e-5)
    assert plan.compiled is not None


@pytest.mark.parametrize(("seconds", "begun"), [(0.0, 3), (0.5, 2)])
def test_a_path_that_takes_longer_than_planning_waits_for_no_third_visit(
    monkeypatch, seconds, begun
):
    a_slice_each(monkeypatch)
    x = torch.ones(3)
    torch.synchronize()
    for visit in range(1, begun + 1):
        chain(x, 4).sum().item()
        plan = last_plan()
        assert (plan.compilation is not None or plan.compiled is not None) == (visit == begun)
        plan.spent = seconds


def test_coming_to_rest_includes_planning(monkeypatch):
    a_slice_each(monkeypatch)
    x = torch.linspace(-1, 1, 5)
    for _ in range(3):
        chain(x, 5).tolist()
    plan = last_plan()
    assert not plan.compilation.planned
    assert jit.drain(60)
    before = launcher.runs()
    chain(x, 5).tolist()
    assert plan.compiled is not None and launcher.runs() == before + 1


def test_a_failure_while_planning_leaves_the_reference(monkeypatch, planted_failure):
    def broken(*unused):
        yield
        raise ValueError("broken")

    a_slice_each(monkeypatch)
    x = torch.linspace(-1, 1, 5)
    for _ in range(3):
        expected = chain(x, 4).tolist()
    monkeypatch.setattr(pipeline, "compile_path", broken)
    plan = last_plan()
    plan.compilation.work = broken()
    assert jit.drain(60)
    assert plan.hopeless and isinstance(plan.fault, ValueError)
    with pytest.warns(RuntimeWarning, match="ValueError: broken"):
        assert chain(x, 4).tolist() == expected
    assert planted_failure.count() == 1


def test_a_long_loop_is_cut_into_nests_that_share_kernels():
    x = torch.linspace(-1, 1, 9)
    n = 3 * MOST_OPS
    with config.override(compile=True, wait=True):
        for _ in range(2):
            found = chain(x, n)
            found = found.tolist()
    code = last_plan().compiled.code
    assert max(len(step.ops) for step in code.steps) <= MOST_OPS
    assert len({step.text for step in code.steps}) <= 5 < len(code.steps)
    expected = np.linspace(-1, 1, 9)
    for _ in range(n):
        expected = np.tanh(expected * 1.01) + 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("little", [0, 1 << 40])
def test_temporaries_that_live_at_once_do_not_overlap(monkeypatch, little):
    monkeypatch.setattr(arena, "LITTLE", little)
    rng = np.random.default_rng(0)
    rows = []
    for k in range(80):
        first, length = int(rng.integers(0, 30)), int(rng.integers(0, 8))
        rows.append((k, int(rng.integers(0, 5)) * 100, first, first + length))
    places, total = arena.place_all(rows)
    for k, size, first, last in rows:
        assert places[k] % ALIGNMENT == 0 and places[k] + size <= total
        for j, other, begin, finish in rows[:k]:
            if size and other and first <= finish and begin <= last:
                assert places[k] + size <= places[j] or places[j] + other <= places[k]


# -- segments whose backward step is known --------------------------------------------------


def recurrent(w, x, turns):
    h = x
    for _ in range(turns):
        assert h.sum() > -1e9  # a flush in each turn
        h = torch.tanh(h @ w)
    return h.sum()


def gradients(w, x, turns):
    w.grad = x.grad = None
    recurrent(w, x, turns).backward()
    return w.grad.numpy(), x.grad.numpy()


def by_hand(w, x, turns):
    states = [x]
    for _ in range(turns):
        states.append(np.tanh(states[-1] @ w))
    g, gw = np.ones_like(x), np.zeros_like(w)
    for before, after in zip(reversed(states[:-1]), reversed(states[1:])):
        d = g * (1 - after * after)
        gw += before.T @ d
        g = d @ w.T
    return gw, g


@pytest.fixture
def weights():
    gc.collect()  # handles whose gradients other tests retain: while they live, passes go by node
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(4, 4)), rng.normal(size=(3, 4))
    return torch.tensor(w, requires_grad=True), torch.tensor(x, requires_grad=True), w, x


@pytest.mark.parametrize("wait", [False, True])
def test_known_segments_are_passed_without_python(weights, monkeypatch, wait):
    w, x, *arrays = weights
    with config.override(compile=True, wait=wait):
        for turns in (5, 3, 6, 4, 5):
            for _ in range(4):
                found = gradients(w, x, turns)
                for mine, hand in zip(found, by_hand(*arrays, turns), strict=True):
                    np.testing.assert_allclose(mine, hand, rtol=1e-9, atol=1e-12)
    calls = []
    real = quick.pass_segment
    monkeypatch.setattr(
        "wend._engine.transforms.backward_ways.pass_segment", lambda *a: calls.append(1) or real(*a)
    )
    gradients(w, x, 6)
    assert not calls


def test_hooks_and_frozen_leaves_are_seen_on_known_segments(weights):
    w, x, *arrays = weights
    for _ in range(4):
        gradients(w, x, 4)
    seen = []
    handle = w.register_hook(lambda g: seen.append(1))
    gw, _ = gradients(w, x, 4)
    np.testing.assert_allclose(gw, by_hand(*arrays, 4)[0])
    assert len(seen) == 1
    handle.remove()
    loss = recurrent(w, x, 4)
    x.requires_grad_(False)
    w.grad = x.grad = None
    loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), by_hand(*arrays, 4)[0])
    assert x.grad is None


def test_a_second_pass_adds_up_or_is_refused(weights):
    w, x, *arrays = weights
    for _ in range(4):
        gradients(w, x, 4)
    w.grad = x.grad = None
    loss = recurrent(w, x, 4)
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * by_hand(*arrays, 4)[0])
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_an_order_of_temporaries_serves_for_all_sizes():
    rng = np.random.default_rng(1)
    lives = [(int(k), int(k) + int(rng.integers(0, 9))) for k in rng.integers(0, 30, 60)]
    placing = arena.Placing(lives)
    base = rng.integers(0, 5, 60) * 7000
    for visit in range(12):
        sizes = (
            (base * (visit + 1) // 3).tolist() if visit < 8 else rng.integers(0, 90, 60).tolist()
        )
        places, total = placing.place(sizes)
        for k, (size, (first, last)) in enumerate(zip(sizes, lives)):
            assert places[k] % ALIGNMENT == 0 and places[k] + size <= total
            for j in range(k):
                if size and sizes[j] and first <= lives[j][1] and lives[j][0] <= last:
                    assert places[k] + size <= places[j] or places[j] + sizes[j] <= places[k]
    assert 0 < len(placing.orders) <= arena.MOST_ORDERS and placing.searched < 12


def test_temporaries_without_bytes_are_not_searched_for():
    placing = arena.Placing([(0, 1), (1, 2)])
    assert placing.place([0, 0]) == ([0, 0], 0) and placing.searched == 0
    assert placing.place([64, 64]) == ([0, 64], 128) and placing.searched == 1
    assert placing.place([0, 0]) == ([0, 0], 0)


def test_a_plan_without_ops_has_a_share():
    class Empty:
        n_ops, spent = 0, 0.0

    assert tiers.share_of(Empty()) == tiers.SHARE


def test_few_plans_are_in_the_making(monkeypatch):
    """Where more and more paths come three times, the least worthy plans begin again."""
    a_slice_each(monkeypatch)
    monkeypatch.setattr(tiers, "MOST_UNDER_WAY", 2)
    monkeypatch.setattr(tiers, "_under_way", WeakObjects())
    worth = {}
    monkeypatch.setattr(tiers, "share_of", lambda plan: worth.get(id(plan), 1e-9))
    x = torch.linspace(-1, 1, 6)
    expected = [chain(x, n).tolist() for n in (20, 21, 22)]
    plans = []
    for n in (20, 21, 22):
        for _ in range(3):
            chain(x, n).tolist()
        plans.append(last_plan())
    assert [plan.compilation is not None for plan in plans] == [True, True, False]
    assert plans[2].why_no_code() == "other paths are compiled first"
    worth[id(plans[2])], worth[id(plans[1])] = 2e-9, 1e-8
    chain(x, 22).tolist()
    assert [plan.compilation is not None for plan in plans] == [False, True, True]
    assert [chain(x, n).tolist() for n in (20, 21, 22)] == expected


def test_kernels_at_hand_are_not_left_to_a_busy_thread(monkeypatch):
    """Each step of a job in the background waits for the interpreter lock."""
    x = torch.linspace(-1, 1, 6)
    for _ in range(4):
        chain(x, 9).tolist()
    jit.drain()  # the kernels of this path are at hand from now on
    asked = []
    monkeypatch.setattr(jit, "compile_later", lambda text, *rest: asked.append(text))
    compilation = plan.Compilation(last_plan().reference)
    monkeypatch.setattr(jit, "is_busy", lambda: True)
    for _ in range(200):
        compilation.plan(0.01)
    assert compilation.code is not None and compilation.left and not compilation.planned
    monkeypatch.setattr(jit, "is_busy", lambda: False)
    for _ in range(200):
        compilation.plan(0.0)
    assert compilation.ready and not asked
    assert compilation.finish() is not None


def test_a_visit_gives_way_to_the_thread_that_compiles(monkeypatch):
    """Else each of the thread's calls of LLVM waits for the interpreter's interval."""
    slept = []
    monkeypatch.setattr(jit.time, "sleep", slept.append)
    jit.give_way()
    assert not slept
    held, done = threading.Event(), threading.Event()

    def compiling():
        with jit._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=compiling)
    thread.start()
    held.wait()
    jit.give_way()
    done.set()
    thread.join()
    assert slept == [jit.WAY]


def test_plans_that_wait_for_a_visit_hold_up_no_other(monkeypatch):
    """The kernels of a session that is saved are asked for without a visit."""
    a_slice_each(monkeypatch)
    monkeypatch.setattr(tiers, "MOST_UNDER_WAY", 1)
    monkeypatch.setattr(tiers, "_under_way", WeakObjects())
    x = torch.linspace(-1, 1, 6)
    plans = []
    for n in (20, 21):
        for _ in range(3):
            chain(x, n).tolist()
        jit.drain()
        plans.append(last_plan())
    assert [plan.compilation.planned for plan in plans] == [True, True]
