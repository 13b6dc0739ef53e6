"""Long paths of which each op needs the one before: run by groups until machine code is ready."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.llvm_ir import jit
from wend._engine.runtime import flush, tiers
from wend._engine.runtime.batching import group_choice, split_flush
from wend._engine.runtime.batching.group_choice import LONG
from wend._engine.runtime.flush_log import last_step

WIDTH, STEPS = 6, LONG // 3 + 10
GROUPS, PLAN = "groups", "NumPy"


@pytest.fixture(autouse=True)
def in_the_background(monkeypatch):
    """Plans are compiled in the background, on a trie of their own."""
    monkeypatch.setattr(group_choice, "FORGOTTEN", 0.0)  # plans of other tests hold up none here
    with own_trie(), config.override(compile=True, wait=False):
        yield


def weights():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(WIDTH, WIDTH)) / 3, rng.normal(size=(1, WIDTH))
    return [torch.tensor(x, requires_grad=True) for x in values]


def loop(weight, bias, step=None):
    """A recurrent net: no two of its steps can run together."""
    x = torch.ones(1, WIDTH, dtype=torch.float64)
    for _ in range(STEPS):
        x = torch.tanh(x @ weight + bias)
        if step is not None:
            x = step(x)
    return x.sum()


def gradients_by_hand(weight, bias):
    w, b = (t.detach().numpy() for t in (weight, bias))
    xs = [np.ones((1, WIDTH))]
    for _ in range(STEPS):
        xs.append(np.tanh(xs[-1] @ w + b))
    g, dw, db = np.ones((1, WIDTH)), np.zeros_like(w), np.zeros_like(b)
    for before, after in zip(xs[-2::-1], xs[:0:-1], strict=True):
        g = g * (1 - after**2)
        dw, db = dw + before.T @ g, db + g
        g = g @ w.T
    return xs[-1].sum(), dw, db


def train(parameters, function=loop):
    """Run a visit; return its numbers, and the executor that ran the path."""
    for p in parameters:
        p.grad = None
    loss = function(*parameters)
    loss.backward()
    found = loss.item(), *[p.grad.numpy() for p in parameters]
    ran = [name for flush in last_step() for name, reason in flush.asked if not reason]
    return found, ran[0]


def check(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_groups_run_a_loop_until_its_plan_is_ready():
    parameters = weights()
    expected = gradients_by_hand(*parameters)
    ran = []
    for _ in range(5):
        found, executor = train(parameters)
        check(found, expected)
        ran.append(executor)
    assert ran == [GROUPS, PLAN, GROUPS, GROUPS, GROUPS]
    jit.drain()
    for _ in range(3):
        found, executor = train(parameters)
        check(found, expected)
    assert executor == "ready plan"


def layer_step(layer, data):
    """A step of training of a layer; its numbers, and the executors that ran."""
    for p in layer.parameters():
        p.grad = None
    loss = layer(data)[0].square().sum()
    loss.backward()
    found = loss.item(), *[p.grad.numpy() for p in layer.parameters()]
    return found, [n for flush in last_step() for n, reason in flush.asked if not reason]


def test_few_ops_of_many_primitives_are_run_by_groups_from_the_third_visit_on():
    """A projected layer records ops for each step, with a cell of fifteen primitives."""
    torch.manual_seed(0)
    layer = torch.nn.LSTM(4, 6, proj_size=5).double()
    data = torch.randn(12, 3, 4, dtype=torch.float64)
    with config.override(autobatch=False, compile=False):
        expected, _ = layer_step(layer, data)
    ran = []
    for _ in range(5):
        found, executors = layer_step(layer, data)
        check(found, expected)
        ran.append(executors[0])
    assert ran == [PLAN, PLAN, GROUPS, GROUPS, GROUPS]
    for _ in range(3):
        jit.drain()
        found, executors = layer_step(layer, data)
        check(found, expected)
    assert executors == ["ready plan"]


def test_groups_are_given_up_after_several_slow_visits(monkeypatch):
    """A single visit may be slow: another program runs, or templates are planned."""
    monkeypatch.setattr(group_choice, "is_making_others", lambda plan: False)
    plan = FakePlan()
    awaited = group_choice.Awaited(plan)
    seconds = [9.0] * group_choice.SETTLED + [2.0] + [9.0] * (group_choice.SLOWER - 1) + [1.0]
    for duration in seconds:
        assert awaited.goes_on()
        awaited.end_visit(True, duration)
    for _ in range(group_choice.SLOWER):
        assert awaited.goes_on()
        awaited.planning = 5.0
        awaited.end_visit(True, 7.5)  # 2.5 without planning
    assert awaited.goes_on()
    for _ in range(group_choice.SLOWER):
        assert awaited.goes_on()
        awaited.end_visit(True, 9.0)
    assert not awaited.goes_on()


class FakePlan:
    """A plan that never gets machine code; its reference takes three seconds."""

    seconds = 3.0

    def awaited(self, seconds):
        return True


def test_a_loop_too_long_to_plan_stays_with_groups(monkeypatch):
    monkeypatch.setattr(tiers, "MOST_AWAITED", 10)
    monkeypatch.setattr(tiers, "VISITS", 0)
    monkeypatch.setattr(group_choice, "SETTLED", 100)  # groups stay, however slow the machine is
    parameters = weights()
    expected = gradients_by_hand(*parameters)
    for _ in range(2):
        train(parameters)
    for _ in range(6):
        jit.drain()
        found, ran = train(parameters)
        check(found, expected)
        assert ran == GROUPS


def test_loops_without_gradients_are_run_by_groups_as_well():
    weight, bias = (p.detach() for p in weights())
    expected = gradients_by_hand(weight, bias)[0]
    ran = []
    for _ in range(5):
        np.testing.assert_allclose(loop(weight, bias).item(), expected, rtol=1e-9)
        ran += [name for flush in last_step() for name, reason in flush.asked if not reason]
    assert ran == [GROUPS, PLAN, GROUPS, GROUPS, GROUPS]
    jit.drain()
    for _ in range(3):
        np.testing.assert_allclose(loop(weight, bias).item(), expected, rtol=1e-9)
    assert last_step()[-1].asked == (("ready plan", ""),)


class Doubled(torch.autograd.Function):
    """A user's function, which no group can run."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_path_that_groups_cannot_run_is_planned():
    parameters = weights()
    expected, executors = None, []
    for _ in range(6):
        found, executor = train(parameters, lambda w, b: loop(w, b, lambda x: Doubled.apply(x) / 2))
        expected = expected or found
        check(found, expected)
        executors.append(executor)
    assert GROUPS not in executors


def test_hooks_and_kept_graphs_work_while_a_plan_is_awaited():
    parameters = weights()
    expected = gradients_by_hand(*parameters)
    for _ in range(3):
        train(parameters)
    seen = []
    handle = parameters[1].register_hook(lambda g: seen.append(g.clone()))
    check(train(parameters)[0], expected)
    handle.remove()
    np.testing.assert_allclose(seen[0].numpy(), expected[2], rtol=1e-9)
    for p in parameters:
        p.grad = None
    loss = loop(*parameters)
    loss.backward(retain_graph=True)
    loss.backward()
    for p, g in zip(parameters, expected[1:], strict=True):
        np.testing.assert_allclose(p.grad.numpy(), 2 * g, rtol=1e-9)
    for _ in range(3):
        check(train(parameters)[0], expected)


def test_two_endings_of_one_loop_are_both_right():
    """Which plan is awaited behind a loop may change from visit to visit."""
    parameters = weights()
    sums = gradients_by_hand(*parameters)
    for k in range(8):
        found, _ = train(parameters, lambda w, b, k=k: loop(w, b) * (1.0 + k % 2))
        check(found, [(1.0 + k % 2) * x for x in sums])


def test_a_loop_whose_backward_pass_is_too_long_to_plan_stays_with_groups(monkeypatch):
    """The loop alone would be planned; its values are read before the backward pass begins."""
    monkeypatch.setattr(group_choice, "MOST_AWAITED", 10)
    parameters = weights()
    expected = gradients_by_hand(*parameters)
    for k in range(6):
        for p in parameters:
            p.grad = None
        loss = loop(*parameters)
        np.testing.assert_allclose(loss.item(), expected[0], rtol=1e-9)
        ran = [name for flush in last_step() for name, reason in flush.asked if not reason]
        loss.backward()
        for p, g in zip(parameters, expected[1:], strict=True):
            np.testing.assert_allclose(p.grad.numpy(), g, rtol=1e-9, atol=1e-12)
        jit.drain()
        assert ran == [PLAN if k == 1 else GROUPS]


def test_updates_by_hand_run_as_a_part_of_their_own(monkeypatch):
    """They wait for the next step's flush. A loop of dependent steps is then run in two parts."""
    start, ran = [p.detach().numpy() for p in weights()], []
    real = flush.run_in_parts

    def watched(batch, live):
        reason = real(batch, live)
        if len(batch.states) > LONG:
            ran.append(not reason)
        return reason

    monkeypatch.setattr(flush, "run_in_parts", watched)
    found = {}
    for batched in (True, False):
        parameters = [torch.tensor(x, requires_grad=True) for x in start]
        with own_trie(), config.override(autobatch=batched):
            for k in range(12):
                loss = loop(*parameters)
                loss.backward()
                with torch.no_grad():
                    for p in parameters:
                        p -= 0.01 * p.grad
                        p.grad = None
                loss.item()
                if k == 8:
                    jit.drain()
            found[batched] = [p.detach().numpy() for p in parameters]
        if batched:
            # Plans are made for the path that begins with updates, and for the one without.
            assert ran[3:6] == [True, True, True]
    check(found[True], found[False])


def descend(parameters):
    """A visit whose flush begins with updates in place, and that reads its loss first."""
    loss = loop(*parameters)
    value = loss.item()
    for p in parameters:
        p.grad = None
    loss.backward()
    grads = [p.grad.numpy().copy() for p in parameters]
    with torch.no_grad():
        for p in parameters:
            p.add_(p.grad, alpha=-0.01)
    return value, *grads


@pytest.mark.parametrize("too_long", [False, True])
def test_updates_in_place_run_first_and_the_loop_by_groups(monkeypatch, too_long):
    """Updates that are pending keep no long loop from groups, at any of its visits."""
    if too_long:
        monkeypatch.setattr(tiers, "MOST_AWAITED", 10)
    monkeypatch.setattr(tiers, "VISITS", 0)
    parted = []
    real = split_flush.first_part

    def watched(batch, live=None):
        found = real(batch, live)
        if live is not None:
            parted.append(len(found))
        return found

    monkeypatch.setattr(split_flush, "first_part", watched)
    parameters, by_hand = weights(), weights()
    results, counts = [], []
    for k in range(12):
        if k >= 6:
            jit.drain()
        results.append(descend(parameters))
        counts.append(sum(parted))
        parted.clear()
    for found in results:  # to read a parameter earlier would run its update by itself
        expected = gradients_by_hand(*by_hand)
        check(found, expected)
        for p, g in zip(by_hand, expected[1:], strict=True):
            p.data.sub_(0.01 * torch.tensor(g))
    # The first flush has no updates; the second and the third make the plan of a path.
    assert all(counts[3:6])
    assert any(counts[8:]) == too_long


def test_a_long_step_that_groups_cannot_run_is_planned(monkeypatch):
    """Found in use: Adam's step on a transformer of 12 layers was never machine code."""
    monkeypatch.setattr(tiers, "MOST_AWAITED", 10)
    monkeypatch.setattr(tiers, "VISITS", 0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    for k in range(8):
        loss = model(torch.full((3, 4), float(k))).square().mean()
        loss.item()  # the step of the backward pass has a flush of its own
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.synchronize()
        jit.drain()
    assert [flush.asked for flush in last_step()] == [(("ready plan", ""),)] * 2
