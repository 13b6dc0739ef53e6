"""Plans whose ops have no kernels of their own: host steps, in place where the reference is."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.ops.indexing.gather import ScatterSrc
from wend._engine.runtime.flush_log import last_plans


@pytest.fixture(autouse=True)
def compiled_at_once():
    """Plans are compiled on the first visit, on a trie of their own."""
    with own_trie(), config.override(compile=True, wait=True, deterministic=False):
        yield


def hosts_of(plan):
    """The host steps of a compiled plan."""
    assert plan.compiled is not None, plan.fault
    return [s for s in plan.compiled.code.steps if not isinstance(s, Kernel)]


def writes(x, index, n):
    """n writes into one tensor by an index, each without a kernel."""
    out = x * 1
    for k in range(n):
        out = out.scatter(0, index, x[:3] * float(k))
    return out + 1


def test_an_op_that_writes_into_its_operand_leaves_the_path_its_machine_code():
    """No path is left to the reference as a whole for one op."""
    x, index = torch.arange(12.0).reshape(6, 2), torch.tensor([[0, 1], [2, 3], [4, 5]])
    for _ in range(2):
        y = writes(x, index, 1)
        wanted = x.numpy().copy()
        np.put_along_axis(wanted, index.numpy(), np.zeros((3, 2), np.float32), 0)
        np.testing.assert_array_equal(y.numpy(), wanted + 1)
    plan = last_plans()[-1]
    assert [s.node.prim.name for s in hosts_of(plan)] == ["scatter"]
    assert any(isinstance(s, Kernel) for s in plan.compiled.code.steps)


def test_a_chain_of_writes_copies_its_tensor_once(monkeypatch):
    """Filling a tensor piece by piece takes time linear in its size, as by the reference."""
    bases = []
    write = ScatterSrc.reference_inplace
    monkeypatch.setattr(
        ScatterSrc, "reference_inplace", lambda s, x, *a: bases.append(id(x)) or write(s, x, *a)
    )
    x, index = torch.rand(6, 2), torch.tensor([[0, 1], [2, 3], [4, 5]])
    y = writes(x, index, 9)
    assert len(hosts_of(run_and_plan(y))) == 9
    assert len(bases) == 9
    assert len(set(bases)) == 1
    with config.override(compile=False), own_trie():
        np.testing.assert_array_equal(y.numpy(), writes(x, index, 9).numpy())


def run_and_plan(y):
    """Compute a tensor; return the plan that has run."""
    y.tolist()
    return last_plans()[-1]


def test_no_write_reaches_a_tensor_that_is_read_again_or_handed_out():
    x, index = torch.rand(6, 2), torch.tensor([[0, 1], [2, 3], [4, 5]])
    before = x.numpy().copy()
    a = x * 2
    b = a.scatter(0, index, x[:3])
    c = b.scatter(0, index, x[1:4])  # b is handed out: no write may reach it
    d = c.scatter(0, index, x[2:5])
    e = c + d  # c is read after the write
    results = [t.numpy().copy() for t in (a, b, c, d, e)]
    np.testing.assert_array_equal(x.numpy(), before)
    with config.override(compile=False), own_trie():
        a = x * 2
        b = a.scatter(0, index, x[:3])
        c = b.scatter(0, index, x[1:4])
        d = c.scatter(0, index, x[2:5])
        for mine, wanted in zip(results, (a, b, c, d, c + d), strict=True):
            np.testing.assert_array_equal(mine, wanted.numpy())


def test_a_host_step_that_gives_its_operand_back_lends_no_leaf():
    """A write after an op that hands on a leaf's own memory must not change the leaf."""
    x, index = torch.rand(4, 2), torch.tensor([[0, 1], [2, 3]])
    before = x.numpy().copy()
    y = x.sort(0).values.scatter(0, index, x[:2])
    z = x.scatter(0, index, x[2:])
    y.tolist(), z.tolist()
    np.testing.assert_array_equal(x.numpy(), before)
