"""Writes through views of leaves: refused where gradients are recorded, done where they are not.

The leaf's elements say where they are, so that the right values follow from the view itself.
"""

import importlib

import numpy as np
import pytest

import wend
from wend._engine.base.errors import GraphError

LEAVES = {
    "leaf": lambda t, b: b.clone(),
    "parameter": lambda t, b: t.nn.Parameter(b, requires_grad=False),
    "parameter of rows": lambda t, b: t.nn.Parameter(b[1:], requires_grad=False),
    "parameter of columns": lambda t, b: t.nn.Parameter(b.t(), requires_grad=False),
    "view": lambda t, b: b.view(-1)[6:18].view(3, 4),
    "detached": lambda t, b: b.detach(),
    "data": lambda t, b: b.data,
    "rows of detached": lambda t, b: b.detach()[1:],
    "detached rows": lambda t, b: b[1:].detach(),
    "array": lambda t, b: t.from_numpy(np.arange(24, dtype="f4").reshape(4, 6)),
}
VIEWS = {
    "select": lambda x: x[0],
    "column": lambda x: x.select(1, 1),
    "slice": lambda x: x[:2],
    "steps": lambda x: x[::2, 1:3],
    "reshape": lambda x: x.reshape(-1, *x.shape),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "transpose": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "expand": lambda x: x.expand(1, *x.shape),
    "narrow": lambda x: x.narrow(0, 1, 1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
    "alias": lambda x: x[...],
    "view_as": lambda x: x.view_as(x),
    "movedim": lambda x: x.movedim(0, 1),
    "chain": lambda x: x.t()[1:][0][1:],
    "unflatten": lambda x: x.unflatten(1, (-1, 1)),
    "unbind": lambda x: x.unbind()[0],
    "split": lambda x: x.split(1)[1],
    "chunk": lambda x: x.chunk(2)[1],
}
WRITES = {
    "add_": lambda v: v.add_(1),
    "mul_": lambda v: v.__imul__(2),
    "item": lambda v: v.__setitem__(0, -1),
    "zero_": lambda v: v.zero_(),
    "fill_": lambda v: v.fill_(2),
    "copy_": lambda v: v.copy_(v.detach().clone()),
    "masked_fill_": lambda v: v.masked_fill_(v > 3, 0),
    "index_fill_": lambda v: v.index_fill_(0, v.new_tensor([0]).long(), 2),
}


def base_of(t):
    return t.arange(24.0).view(4, 6)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_writes_with_gradients_are_refused(leaf, view):
    """Without it the write is done, and the next step trains another parameter."""
    x = LEAVES[leaf](wend, base_of(wend)).requires_grad_()
    before = x.tolist()
    views = [VIEWS[view](x)]
    if leaf not in ("view", "rows of detached"):  # whose base does not require grad
        with wend.no_grad():
            views.append(VIEWS[view](x))
    for v in views:
        for write in WRITES.values():
            with pytest.raises(GraphError, match="leaf Variable that requires grad"):
                write(v)
    assert x.tolist() == before and x._version == 0


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("leaf", [name for name in LEAVES if name not in ("view",)])
def test_a_view_taken_before_the_leaf_required_grad(leaf, view):
    x = LEAVES[leaf](wend, base_of(wend))
    if leaf == "rows of detached":
        pytest.skip("a view of the detached tensor, which does not require grad")
    v = VIEWS[view](x)
    x.requires_grad_()
    with pytest.raises(GraphError, match="leaf Variable that requires grad"):
        v.add_(1)
    v.detach().fill_(-1)
    assert (np.array(v.tolist()) == -1).all() and -1 in np.array(x.tolist())


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_writes_without_gradients_reach_leaf_and_base(leaf, view):
    base = base_of(wend)
    x = LEAVES[leaf](wend, base).requires_grad_()
    v = VIEWS[view](x)
    places, before, whole = (np.array(t.tolist()) for t in (v, x, base))
    with wend.no_grad():
        v.fill_(-1)
    assert np.array_equal(x.tolist(), np.where(np.isin(before, places), -1, before))
    if leaf not in ("leaf", "array"):
        assert np.array_equal(base.tolist(), np.where(np.isin(whole, places), -1, whole))
    assert x.requires_grad and x.is_leaf and x._version == v._version == 1
    (x * x).sum().backward()
    assert np.array_equal(x.grad.tolist(), 2 * np.array(x.tolist()))


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("when", ["before", "recorded", "not recorded"])
def test_the_same_as_pytorch(leaf, when):
    """Values, counts of writes and exception classes, for all views and writes."""
    torch = pytest.importorskip("torch")
    for view in VIEWS:
        for write in WRITES:
            found = [outcome(importlib.import_module(name), leaf, view, write, when)
                     for name in ("torch", "wend")]  # fmt: skip
            assert found[0] == found[1], (view, write)
    assert torch is not wend


def outcome(t, leaf, view, write, when):
    base = base_of(t)
    x = LEAVES[leaf](t, base)
    v = VIEWS[view](x) if when == "before" else None
    x.requires_grad_()
    if v is None:
        v = VIEWS[view](x)
    raised = False
    try:
        with t.set_grad_enabled(when != "not recorded"):
            WRITES[write](v)
    except RuntimeError:
        raised = True
    # PyTorch refuses to look at one of several views after a write without gradients.
    values = [tensor.tolist() for tensor in (x.detach(), base)]
    return raised, values, x._version, base._version


@pytest.mark.parametrize("name", ["torch", "wend"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_with_new_data_is_still_a_view_of_the_leaf(view, name):
    """After `.data = ` writes are refused as before; without gradients they reach the new data."""
    t = pytest.importorskip(name)
    x = base_of(t).clone().requires_grad_()
    before = x.tolist()
    v = VIEWS[view](x)
    v.data = t.zeros(v.shape)
    one_of_several = view in ("unbind", "split", "chunk") and t is not wend  # refused for that
    for write in WRITES.values():
        with pytest.raises(
            RuntimeError, match="" if one_of_several else "leaf Variable that requires grad"
        ):
            write(v)
    assert not np.array(v.tolist()).any()
    if one_of_several:
        return
    with t.no_grad():
        v.add_(1)
    assert np.array(v.tolist()).all() and x.tolist() == before
