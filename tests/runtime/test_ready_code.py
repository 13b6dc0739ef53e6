"""Ready-made kernels in first visits: the same results as the rules in NumPy, or the rules."""

import threading

import numpy as np
import pytest

import tries
import wend as torch
from wend._engine.base import config, defects
from wend._engine.compiler.llvm_ir import jit, ready_objects
from wend._engine.core import _hot
from wend._engine.runtime import tiers
from wend._engine.runtime.compiled import ready_code
from wend._engine.runtime.compiled.plan import CompiledPlan
from wend._engine.runtime.numpy_executor import runners
from wend._engine.runtime.numpy_executor.runners import ReadyRule
from wend.nn import functional as F


@pytest.fixture(autouse=True)
def _first_visits(monkeypatch):
    """Patterns and paths are new to the engine, and ready-made kernels are due at once."""
    level = ready_objects.level_of(jit.host().names)
    if not ready_objects.index_of(ready_objects.path_of(ready_objects.FOLDER, level)):
        pytest.skip("this installation has no ready-made kernels for this processor")
    monkeypatch.setattr(runners, "ENOUGH", 0.0)
    assert jit.drain(60)  # LLVM links nothing while it compiles for an earlier test
    _hot.new_epoch()
    with config.override(wait=False, verify=False), tries.own_trie():
        yield
    _hot.new_epoch()


@pytest.fixture
def runs(monkeypatch):
    """The ops that machine code of their own has computed, by name."""
    found = []
    real = ready_code.ReadyCode.__call__

    def counted(code, arrays, args):
        result = real(code, arrays, args)
        if result is not None:
            found.append(code.program.prim.name)
        return result

    monkeypatch.setattr(ready_code.ReadyCode, "__call__", counted)
    return found


def image_step(images, size, stride=1, padding=1, groups=1, dtype=torch.float32, turn=False):
    """The result of a convolution, and both of its gradients."""
    rng = np.random.default_rng(images + size)
    x = torch.tensor(rng.normal(size=(images, 4, size, size + 2)), dtype=dtype)
    w = torch.tensor(rng.normal(size=(6, 4 // groups, 3, 3)), dtype=dtype)
    x.requires_grad_()
    w.requires_grad_()
    given = x.flip(3).transpose(2, 3) if turn else x
    y = F.conv2d(given, w, stride=stride, padding=padding, groups=groups)
    (y * y).sum().backward()
    return [t.detach().numpy().copy() for t in (y, x.grad, w.grad)]


def attention_step(rows, mask=None, causal=False, p=0.0):
    torch.manual_seed(rows)
    q, k, v = (torch.randn(2, 3, rows, 8, requires_grad=True) for _ in range(3))
    y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p, is_causal=causal)
    (y * y).sum().backward()
    return [t.detach().numpy().copy() for t in (y, q.grad, k.grad, v.grad)]


def by_rules(step, *args, **options):
    """The results of the rules in NumPy."""
    with config.override(compile=False), tries.own_trie():
        return step(*args, **options)


IMAGES = [
    {"images": 3, "size": 9},
    {"images": 1, "size": 20, "stride": 2, "padding": 0},
    {"images": 2, "size": 7, "groups": 2},
    {"images": 4, "size": 6, "turn": True},
    {"images": 0, "size": 5},
]


@pytest.mark.parametrize("options", IMAGES, ids=str)
def test_convolutions_equal_the_rules(options, runs):
    for found, expected in zip(image_step(**options), by_rules(image_step, **options), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert options["images"] == 0 or set(runs) == {
        "convolve", "convolve_input", "convolve_weight"
    }  # fmt: skip


ATTENTIONS = [{}, {"causal": True}, {"p": 0.25}, {"mask": True}, {"causal": True, "p": 0.5}]


@pytest.mark.parametrize("options", ATTENTIONS, ids=str)
def test_attention_equals_the_rules(options, runs):
    options = dict(options)
    if options.pop("mask", False):
        options["mask"] = torch.ones(11, 11).tril() > 0
    pairs = zip(attention_step(11, **options), by_rules(attention_step, 11, **options), strict=True)
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert len(runs) == 2


def test_other_sizes_use_the_same_code(runs, monkeypatch):
    made = []
    monkeypatch.setattr(
        ReadyRule, "maker", lambda program: made.append(program) or ready_code.ReadyCode(program)
    )
    for size in (9, 12, 15):
        image_step(2, size)
    assert len(runs) == 9 and len(made) == 3


def test_a_dtype_without_ready_kernels_is_left_to_the_rule(runs):
    options = {"images": 2, "size": 8, "dtype": torch.float64}
    for found, expected in zip(image_step(**options), by_rules(image_step, **options), strict=True):
        assert np.array_equal(found, expected)
    assert runs == []


def test_without_kernels_in_the_installation_the_rules_run(runs, monkeypatch):
    monkeypatch.setattr(ready_objects, "index_of", lambda path: {})
    found, expected = image_step(2, 11), by_rules(image_step, 2, 11)
    assert runs == [] and all(map(np.array_equal, found, expected))


def test_while_llvm_is_busy_the_rule_runs(runs, monkeypatch):
    asked = []
    with monkeypatch.context() as busy:
        busy.setattr(jit, "find_module", lambda text, names: asked.append(names))
        image_step(2, 13)
    assert runs == [] and len(asked) >= 3
    image_step(2, 13)
    assert len(runs) == 3


def test_kernels_are_due_after_some_time_and_never_in_deterministic_runs(runs, monkeypatch):
    torch.use_deterministic_algorithms(True)
    try:
        with tries.own_trie():
            image_step(2, 10)
    finally:
        torch.use_deterministic_algorithms(False)
    monkeypatch.setattr(runners, "ENOUGH", float("inf"))
    with tries.own_trie():
        image_step(2, 10)
    assert runs == []
    monkeypatch.setattr(runners, "ENOUGH", 1e-9)
    with tries.own_trie():
        image_step(2, 10)
    assert len(runs) == 3


def test_a_failing_kernel_is_noted_and_the_rule_computes(monkeypatch, planted_failure):
    def broken(plan, batch):
        raise ArithmeticError("broken")

    expected = by_rules(image_step, 2, 14)
    monkeypatch.setattr(CompiledPlan, "run", broken)
    with pytest.warns(RuntimeWarning, match="broken"):
        found = image_step(2, 14)
    assert all(map(np.array_equal, found, expected))
    assert defects.count() > 0


def test_while_another_thread_plans_the_rule_runs(runs):
    held, done = threading.Event(), threading.Event()

    def plan():
        with tiers._planning:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=plan)
    thread.start()
    held.wait(60)
    try:
        image_step(2, 16)
        assert runs == []
    finally:
        done.set()
        thread.join()
    image_step(2, 16)
    assert len(runs) == 3
