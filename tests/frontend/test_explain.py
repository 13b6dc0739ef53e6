"""wend.debug.explain(): kernels with the user's lines, host steps and why, why a path was new."""

import numpy as np
import pytest

import wend as torch
import wend.nn.functional as F
from wend._engine.base import config
from wend._engine.compiler.pipeline import PASSES


@pytest.fixture(autouse=True)
def at_once(own_trie):
    with config.override(compile=True, wait=True):
        yield


def line_of(text):
    """Number of the line of this file that ends with a comment."""
    with open(__file__, encoding="utf-8") as lines:
        return next(k for k, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {text}"))


def train(weight, x):
    hidden = torch.tanh(x @ weight)  # the product
    loss = F.softmax(hidden, 1).square().mean()  # the loss
    loss.backward()
    return loss.item()


def test_kernels_name_the_users_lines():
    weight, x = torch.ones(5, 4, requires_grad=True), torch.ones(3, 5)
    train(weight, x)
    found = torch.debug.explain()
    (flush,) = found.flushes
    assert "machine code" in flush.tier and not flush.host_steps
    lines = {line for step in flush.steps for _, line in step.ops}
    assert any(f"test_explain.py:{line_of('the product')} in train" in line for line in lines)
    assert any(f"test_explain.py:{line_of('the loss')} in train" in line for line in lines)
    product = next(step for step in flush.kernels if step.kind == "contract")
    assert product.flops == 2 * 3 * 5 * 4 + 3 * 4  # and the activation behind it
    assert (product.read, product.written) == (4 * (3 * 5 + 5 * 4), 4 * 3 * 4)
    text = str(found)
    assert "contract" in text and "120 flop" in text and "test_explain.py" in text
    assert found._repr_html_().count("<tr>") == len(flush.steps) + 1


def test_a_step_is_what_came_since_its_path_was_last_taken():
    weight, x = torch.ones(5, 4, requires_grad=True), torch.ones(3, 5)
    for _ in range(2):
        train(weight, x)
        (weight.detach() * 2).tolist()
        (weight.detach() - x.sum() * 3).tolist()
    assert len(torch.debug.explain().flushes) == 3


def test_why_a_path_is_new():
    x = torch.ones(3, 4)
    torch.synchronize()
    (x.abs() + 1).floor().tolist()
    (x.abs() + 1).ceil().tolist()  # another way
    (flush,) = torch.debug.explain().flushes
    assert flush.path.startswith("new: ceil at ") and "known there: " in flush.path
    assert f"test_explain.py:{line_of('another way')} in" in flush.path
    assert "floor at " in flush.path
    for _ in range(2):
        (x.abs() + 1).ceil().tolist()
    assert torch.debug.explain().flushes[-1].path.startswith("known, taken ")


def test_why_a_step_is_on_the_host():
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    torch.linalg.cholesky(x + 1).tolist()  # on the host
    (step,) = torch.debug.explain().flushes[-1].host_steps
    assert step.reason == "the work is a call of a library: LAPACK"
    assert f"test_explain.py:{line_of('on the host')}" in step.ops[0][1]
    assert "on the host: the work is a call" in str(torch.debug.explain())


def test_plans_of_the_reference_say_so():
    with config.override(compile=False):
        (torch.ones(3) * 2.5).sinh().tolist()
        assert "compilation is off" in torch.debug.explain().flushes[-1].tier


def test_passes_in_order():
    weight, x = torch.ones(5, 4, requires_grad=True), torch.ones(3, 5)
    train(weight, x)
    passes = torch.debug.explain().passes()
    assert [p.name for p in passes] == [p.name for p in PASSES]
    assert all(p.text for p in passes)
    assert "kernel contract" in passes[-2].text


def test_explaining_keeps_no_values():
    import gc
    import weakref

    x = torch.tensor(np.ones(3, np.float32))
    y = (x * 3).sinh()
    y.tolist()
    gone = weakref.ref(y)
    found = torch.debug.explain()
    del y
    gc.collect()
    assert gone() is None and found.flushes
