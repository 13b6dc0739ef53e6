"""Nests over much memory: it is asked for early, and results are written past the caches."""

import numpy as np
import pytest
from tests.tries import own_trie

import wend as torch
import wend.nn.functional as F
from wend._engine.base import config
from wend._engine.compiler import place
from wend._engine.compiler.codegen import known_code, nest_prefetch
from wend._engine.compiler.llvm_ir.jit import host


@pytest.fixture(params=[8, 256], ids=["vector by vector", "gathered"])
def streamed(monkeypatch, request):
    """Per nest's result whether it may be streamed, of plans compiled at once; all is far.

    A cache line is said to be smaller than any vector, and rows to be long; or the opposite.
    """
    found = []
    judge = place.streamed_steps

    def noted(emitted, *given):
        steps = judge(emitted, *given)
        for before, after in zip(emitted.steps, steps, strict=True):
            found.extend(after.slots[j].kind == "extent" for j, _ in marked(before))
        return steps

    monkeypatch.setattr(place, "streamed_steps", noted)
    monkeypatch.setattr(nest_prefetch, "LINE", request.param)
    monkeypatch.setattr(nest_prefetch, "ROW", 64 if request.param == 8 else nest_prefetch.ROW)
    monkeypatch.setattr(nest_prefetch, "FAR_BYTES", 64)
    monkeypatch.setattr(nest_prefetch, "STREAM_BYTES", 16)
    known_code.forget()
    with own_trie(), config.override(compile=True, wait=True):
        yield found
    known_code.forget()


def marked(step):
    """The slots of a step that ask whether results are streamed."""
    return [(j, s) for j, s in enumerate(getattr(step, "slots", ())) if s.kind == "streamed"]


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("count", [16, 64, 1000, 4097])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_, np.uint8])
def test_all_elements_arrive(streamed, count, dtype):
    x = (normal(3, count) > 0).astype(dtype) if dtype is np.bool_ else normal(3, count)
    x = np.abs(8 * x).astype(dtype)
    made = torch.tensor(x) == 2 if dtype is np.bool_ else torch.tensor(x) * 2
    want = x == 2 if dtype is np.bool_ else x * dtype(2)
    np.testing.assert_array_equal(made.numpy(), want)
    # A lane for each four bytes of a register: bytes may be too few to be written so.
    assert any(streamed) == (want.itemsize * host().vector_bytes // 4 >= nest_prefetch.LEAST)


@pytest.mark.parametrize("count", [1, 15, 63, 64, 65, 127, 128, 129, 192, 300])
def test_whole_vectors_and_what_is_left(streamed, count):
    x, y = normal(count), normal(count)
    made = torch.tanh(torch.tensor(x) * torch.tensor(y)) + torch.tensor(y)
    np.testing.assert_allclose(made.numpy(), np.tanh(x * y) + y, rtol=1e-6, atol=1e-6)
    total = torch.tensor(x)
    total += torch.arange(count)  # in place, and elements that are made from where they are
    np.testing.assert_array_equal(total.numpy(), x + np.arange(count, dtype=np.float32))


@pytest.mark.parametrize(
    "columns", [32, 33, 100, 300, 384]
)  # rows begin at whole registers, or do not
def test_rows(streamed, columns):
    x, g = normal(50, columns), normal(50, columns)
    leaf = torch.tensor(x, requires_grad=True)
    y = torch.softmax(leaf, 1)
    y.backward(torch.tensor(g))
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(y.detach().numpy(), p, rtol=1e-5)
    want = p * (g - (p * g).sum(1, keepdims=True))
    np.testing.assert_allclose(leaf.grad.numpy(), want, rtol=1e-4, atol=1e-6)
    assert any(streamed)


def test_what_is_read_again_stays_in_the_caches(streamed):
    x, w = torch.tensor(normal(64, 64)), torch.tensor(normal(64, 64))
    made = x * 2
    product = made @ w
    product.numpy()
    assert streamed
    assert not any(streamed)


def test_parts_and_threads(streamed):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x, b = normal(2000, 1001), normal(1001)
        made = torch.relu(torch.tensor(x) + torch.tensor(b)).numpy()
        np.testing.assert_array_equal(made, np.maximum(x + b, 0))
        rows = F.layer_norm(torch.tensor(x), (1001,)).numpy()
        want = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        np.testing.assert_allclose(rows, want, rtol=1e-3, atol=1e-4)
    finally:
        torch.set_num_threads(before)
    assert any(streamed)
