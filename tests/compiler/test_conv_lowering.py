"""Convolutions in plans: compiled for paths, and compared with sums in NumPy, tap by tap."""

import numpy as np
import pytest
from convolutions import GEOMETRIES, Case, near

import wend
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.ir.loops import CONVOLVE
from wend._engine.compiler.kernels.conv.forward import keeps_turned
from wend._engine.core.primitive import ops
from wend._engine.runtime import tiers
from wend._engine.runtime.compiled.plan import CompiledPlan
from wend.nn import functional as F


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Paths become machine code at once; the steps of all plans that were made."""
    steps = []
    bound = CompiledPlan.__init__

    def note(plan, reference, code, libraries):
        steps.extend(op.kind for op in code.function.ops)
        bound(plan, reference, code, libraries)

    monkeypatch.setattr(CompiledPlan, "__init__", note)
    wend.set_default_dtype(wend.float32)
    with own_trie(), config.override(compile=True, wait=True):
        yield steps


@pytest.fixture
def codes(monkeypatch):
    """The codes of all plans that are made."""
    found = []
    bound = CompiledPlan.__init__

    def note(plan, reference, code, libraries):
        found.append(code)
        bound(plan, reference, code, libraries)

    monkeypatch.setattr(CompiledPlan, "__init__", note)
    return found


def both_gradients(x, w, g, call):
    """The result of a call, and its gradients."""
    x, w, g = (wend.tensor(a) for a in (x, w, g))
    x.requires_grad_()
    w.requires_grad_()
    y = call(x, w)
    y.backward(g)
    return y.detach().numpy(), x.grad.numpy(), w.grad.numpy()


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_geometries(geometry, dtype, compiled):
    case = Case(geometry, dtype)
    padding = (*case.low, *case.high)

    def call(x, w):
        return ops.convolve(x, w, padding, case.stride, case.dilation, case.groups)

    before = tiers.COUNTS["failed"]
    y, x, w = both_gradients(case.x, case.w, case.g, call)
    near(y, case.forward(), dtype)
    near(x, case.to_input(), dtype)
    near(w, case.to_weight(), dtype)
    assert tiers.COUNTS["failed"] == before


def test_one_plan_serves_all_sizes(compiled):
    rng = np.random.default_rng(0)
    w = wend.tensor(rng.normal(size=(5, 3, 3, 3)))
    made = []
    for size in ((8, 9), (20, 11), (5, 64)):
        x = rng.normal(size=(2, 3, *size))
        y = F.relu(F.conv2d(wend.tensor(x), w, stride=2, padding=1)).numpy()
        geometry = (2, 3, 5, size, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 1)
        case = Case(geometry, "float64")
        case.x, case.w = x, w.numpy()
        near(y, np.maximum(case.forward(), 0), "float64")
        made.append(compiled.count(CONVOLVE))
    assert made[1] == made[2]


def test_convolutions_by_one_weight_are_told_so(codes):
    rng = np.random.default_rng(0)
    w, other = (wend.tensor(rng.normal(size=(n, 32, 3, 3)).astype("f")) for n in (24, 16))
    cases = [Case((1, 32, 24, (n, n), (3, 3), (1, 1), (1, 1), (1,) * 4, 1)) for n in (8, 12, 13)]
    made = [F.conv2d(wend.tensor(case.x), w, padding=1) for case in cases]
    made.append(F.conv2d(wend.tensor(cases[0].x), other, padding=1))
    wend.synchronize()
    for y, case in zip(made, cases, strict=False):
        case.w = w.numpy()
        near(y.numpy(), case.forward())
    kernels = [step for step in codes[-1].steps if step.name == "convolve"]
    told = [step.slots[step.words.index("shared")].a for step in kernels]
    assert told == ([1, 1, 1, 0] if keeps_turned("float32") else [0] * 4)


def test_one_dim_and_transposed(compiled):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3, 30)), rng.normal(size=(4, 3, 5))
    g = rng.normal(size=(2, 4, 13))
    y, dx, dw = both_gradients(x, w, g, lambda x, w: F.conv1d(x, w, stride=2))
    case = Case((2, 3, 4, (1, 30), (1, 5), (1, 2), (1, 1), (0, 0, 0, 0), 1), "float64")
    case.x, case.w, case.g = x[:, :, None], w[:, :, None], g[:, :, None]
    near(y, case.forward()[:, :, 0], "float64")
    near(dx, case.to_input()[:, :, 0], "float64")
    near(dw, case.to_weight()[:, :, 0], "float64")
    back = F.conv_transpose1d(wend.tensor(g), wend.tensor(w), stride=2, output_padding=1)
    near(back.numpy(), case.to_input()[:, :, 0], "float64")
    assert compiled.count(CONVOLVE) == 4


def test_operands_that_lie_differently(compiled):
    rng = np.random.default_rng(0)
    case = Case((2, 3, 4, (7, 9), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1), "float64")
    x = wend.tensor(np.ascontiguousarray(case.x.transpose(0, 2, 3, 1))).permute(0, 3, 1, 2)
    w = wend.tensor(np.ascontiguousarray(case.w.transpose(3, 2, 1, 0))).permute(3, 2, 1, 0)
    y = F.conv2d(x * 1, w * 1, padding=1)
    near(y.numpy(), case.forward(), "float64")
    spread = wend.tensor(rng.normal(size=(2, 3, 1, 1))).expand(2, 3, 7, 9)
    case.x = spread.numpy()
    near(F.conv2d(spread, w, padding=1).numpy(), case.forward(), "float64")
