"""The steps of the NumPy executor: the short way and the long way, compiled and uncompiled."""

import sys

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core._select import load_plain
from wend._engine.runtime.donation import WORTH
from wend._engine.runtime.numpy_executor import _step_select, plan, runners

NAME = "wend._engine.runtime.numpy_executor._step"


@pytest.fixture(autouse=True)
def _on_the_reference():
    with config.override(compile=False, verify=False, eager=False), own_trie():
        yield


@pytest.fixture
def plain():
    """The module of steps, uncompiled."""
    kept = sys.modules.get(NAME)
    yield load_plain(NAME, _step_select.STAND_INS)
    if kept is not None:
        sys.modules[NAME] = kept


@pytest.fixture
def flushes(monkeypatch):
    """(values to keep, steps, values before, values after, types, args) of each flush."""
    seen = []
    real = plan.ReferencePlan.compute

    def compute(self, env, types, args):
        before = list(env)
        real(self, env, types, args)
        keep = self.wanted | self.saved
        seen.append((keep, list(self.steps), before, list(env), types, args))

    monkeypatch.setattr(plan.ReferencePlan, "compute", compute)
    return seen


@pytest.fixture
def at_length(monkeypatch):
    """The names of ops that ran in the long way."""
    names = []
    real = runners.NodeRun.call_at_length

    def call_at_length(self, env, types, args):
        names.append(self.node.prim.name)
        real(self, env, types, args)

    monkeypatch.setattr(runners.NodeRun, "call_at_length", call_at_length)
    return names


def mixed(n):
    """Ops with numbers, casts, dims that go, results without dims, and several results."""
    x = torch.arange(float(n * 3)).reshape(n, 3) / 7
    k = torch.arange(n)
    y = torch.where(x > 1, x * 2 - 0.5, -x) + k.unsqueeze(1)
    top = y.max(dim=1)
    z = torch.cat([y.t(), y.t()[:2] * 3]).sum(0) + top.values
    mean = (z.sum() / (k.sum() + 1)).exp()
    return mean, (z.to(torch.int64) % 5)[:2], torch.full((2,), -0.0) * k[0]


def test_steps_leave_what_is_wanted_and_no_more(flushes):
    results = mixed(4)
    torch.synchronize()
    assert flushes
    for keep, steps, before, after, _, _ in flushes:
        assert steps
        entering = {i for i, array in enumerate(before) if array is not None}
        unread = {i for step in steps if step.output is None for i in step.outputs}
        left = {i for i, array in enumerate(after) if array is not None}
        assert keep <= left <= keep | unread | entering
        assert all(type(after[i]) is np.ndarray for i in keep)
        freed = [i for step in steps for i in step.frees]
        assert len(set(freed)) == len(freed) and not keep & set(freed)
    assert [tuple(r.shape) for r in results] == [(), (2,), (2,)]
    assert np.signbit(results[2].numpy()).all()


def test_both_ways_and_both_forms_give_the_same_bits(flushes, plain):
    results = mixed(4)
    torch.synchronize()
    assert len(results) == 3 and flushes  # results that nobody holds are not computed
    ways = set()
    for keep, steps, before, after, types, args in flushes:
        short, long = list(before), list(before)
        for step in steps:
            twin = type("Twin", (plain.RuleStep,), {"call_at_length": None})()
            runner = step.runner
            if type(runner) is runners.RuleRunner:
                runner = plain.RuleRunner(step.node.prim, runner.rule)
            twin.take(step.node, step.frees, runner)
            for field in ("output", "outputs", "donates", "overwrites", "turned", "frees"):
                assert getattr(twin, field) == getattr(step, field)
            ways.add(is_long := twin.direct is None or twin.donates)
            if is_long:
                step.call(short, types, args)
            else:
                twin.call(short, types, args)
            step.call_at_length(long, types, args)
        for i in keep:
            for got in (short[i], long[i]):
                assert np.asarray(got).dtype == after[i].dtype
                assert np.asarray(got).tobytes() == after[i].tobytes()
    assert ways == {False, True}


@pytest.mark.parametrize(("elements", "ways"), [(WORTH // 4 - 1, []), (WORTH // 4, ["neg"])])
def test_only_large_operands_are_looked_at_for_room(at_length, elements, ways):
    x = torch.ones(elements)
    torch.synchronize()
    at_length.clear()
    y = -torch.exp(x)
    y.numpy()
    assert at_length == ways


def test_a_result_of_another_dtype_is_cast(flushes):
    """NumPy computes in wider types than PyTorch's for some formulas of halves."""
    x = torch.tensor([0.5, 1.5], dtype=torch.float16)
    assert torch.sigmoid(x).numpy().dtype == np.float16
    assert flushes[-1][1][-1].node.prim.name == "sigmoid"


@pytest.mark.parametrize("large", [False, True])
def test_the_module_knows_arrays_as_numpy_does(plain, large):
    array = np.zeros(WORTH if large else 3, np.int8)
    assert plain.kind_of(array, array.dtype) == (large, True)
    assert plain.kind_of(array, np.dtype(np.float32)) == (large, False)
    assert plain.kind_of(np.float32(3), np.dtype(np.float32)) == (False, False)
