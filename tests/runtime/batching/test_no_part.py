"""Parameters without part in a loss get no gradient, and none of 0, however ops are batched.

A region may read a value that no gradient comes to: by `detach`, a comparison, an index.  In each
program `w` is used so alone; PyTorch's loop leaves `w.grad` None, and a decaying optimizer then
leaves `w` alone.
"""

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

CALLS = 3  # the first is run by groups, later calls by lanes


def detached(t, x, w, q, table):
    a = x @ w
    if a.abs().sum() > 0.5:
        a = a * 0.6
        a = table[(a.detach().abs().sum() * 3).long() % 4]
    return a * q


def compared(t, x, w, q, table):
    a = x @ w
    if x.sum() > 0:
        a = a * 0.5
    return t.where(a > 0, q, table[0]) * 2


def indexed(t, x, w, q, table):
    a = (x @ w).tanh()
    if a.sum() > 100:
        return a
    return table[a.argmax() % 4] * q


def rounded(t, x, w, q, table):
    a = (x @ w) * 2
    if a.sum() > 100:
        return a
    return (a.long() + 1) * q + table[1]


def signs(t, x, w, q, table):
    a = (x @ w) * 2
    b = a.detach().sign() if x.sum() > -1e9 else a
    return t.sigmoid(b * q) + (b > 0) * table[2]


def from_zero(t, x, w, q, table):
    """`w` has a part; that of the root at 0, whose derivative is infinite, has none."""
    a = x @ (w * 0)
    if a.sum() > 5:
        return a
    s = (a * 2).sqrt()
    return table[s.detach().sum().long() % 4] * q + a * 3 + x @ w


PROGRAMS = {f.__name__: f for f in (detached, compared, indexed, rounded, signs, from_zero)}


def parameters(t):
    rng = np.random.default_rng(1)
    shapes = [(3, 3), (3,), (4, 3)]
    return [t.tensor(rng.normal(size=s).astype("float32"), requires_grad=True) for s in shapes]


def gradients(t, program, how):
    """Gradients of all parameters after a call, None for those without, per call."""
    own = parameters(t)
    rng = np.random.default_rng(2)
    found = []
    for _ in range(CALLS):
        for p in own:
            p.grad = None
        xs = [t.tensor((rng.normal(size=3) * 3).astype("float32")) for _ in range(5)]

        def call(x):
            return program(t, x, *own)

        outs = wend.batched(call)(xs) if how == "batched" else [call(x) for x in xs]
        sum((o * o).sum() for o in outs).backward()
        found.append([None if p.grad is None else p.grad.numpy().copy() for p in own])
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_batched_calls_are_torchs(name):
    wanted = gradients(torch, PROGRAMS[name], "loop")
    for how in ("batched", "loop"):
        with wend.autobatch(True):
            found = gradients(wend, PROGRAMS[name], how)
        for i, (row, theirs) in enumerate(zip(found, wanted, strict=True)):
            assert [g is None for g in row] == [g is None for g in theirs], (how, i)
            for a, b in zip(row, theirs, strict=True):
                if a is not None:
                    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=f"{how} {i}")


@pytest.mark.parametrize("how", ["batched", "loop"])
def test_weight_decay_leaves_a_parameter_without_part_alone(how):
    w, q, table = parameters(wend)
    before = w.detach().clone()
    optimizer = wend.optim.AdamW([w, q, table], lr=0.1, weight_decay=0.5)
    xs = [wend.full((3,), k + 1.0) for k in range(5)]
    outs = [detached(wend, x, w, q, table) for x in xs]
    if how == "batched":
        outs = wend.batched(lambda x: detached(wend, x, w, q, table))(xs)
    sum((o * o).sum() for o in outs).backward()
    optimizer.step()
    assert w.grad is None
    assert wend.equal(w, before)
