"""Attention by generated code: the reference's numbers, no matrix of all pairs in memory."""

import numpy as np
import pytest
from test_pipeline import code_of, compared

import wend as torch
import wend.nn.functional as F
from wend._engine.base import config
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.runtime.compiled.arena import place_all

attend = F.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run."""
    with config.override(compile=True, wait=True, verify=False):
        yield


def operands(front, rows, columns, depth, width, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((*front, rows, depth), (*front, columns, depth), (*front, columns, width))
    arrays = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    return [torch.from_numpy(a).requires_grad_() for a in arrays]


def gradients(q, k, v, **given):
    y = attend(q, k, v, **given)
    # Up to 1: a row that sees one key has a gradient of 0, the difference of two sums of products
    # with these, whose last bits depend on the order of additions.
    weights = torch.arange(1, y.shape[-1] + 1) / y.shape[-1]
    grads = torch.autograd.grad((y * weights).sum(), (q, k, v))
    return [y, *grads]


SIZES = [
    ((2, 2), 3, 5, 4, 6),
    ((1, 2), 70, 70, 32, 32),
    ((), 17, 33, 8, 8),
    ((3,), 1, 40, 16, 16),
    ((2, 1), 130, 700, 64, 64),
    ((1,), 65, 320, 128, 48),
    ((2,), 1, 1, 1, 1),
]
EMPTY = [((0, 2), 3, 4, 5, 6), ((2,), 0, 4, 5, 6), ((2,), 3, 0, 5, 6), ((2,), 3, 4, 0, 6)]


@pytest.mark.parametrize("sizes", SIZES + EMPTY, ids=str)
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float", "dropout"])
def test_all_kinds_and_sizes(sizes, kind):
    front, rows, columns, depth, width = sizes
    q, k, v = operands(front, rows, columns, depth, width)
    rng = np.random.default_rng(3)
    given = {}
    if kind == "causal":
        given["is_causal"] = True
    elif kind == "bool":
        given["attn_mask"] = torch.from_numpy(rng.normal(size=(rows, columns)) > 0)
    elif kind == "float":
        mask = rng.normal(size=(*front[-1:], rows, columns)).astype(np.float32)
        given["attn_mask"] = torch.from_numpy(mask)
    elif kind == "dropout":
        given["dropout_p"] = 0.4

    def run():
        torch.manual_seed(5)
        return gradients(q, k, v, **given)

    compared(run)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [((2, 2), 40, 50, 16, 24), ((1,), 3, 400, 8, 8)], ids=str)
def test_other_types(dtype, sizes):
    wide = operands(sizes[0], *sizes[1:], dtype=np.float64)
    q, k, v = (x.detach().to(getattr(torch, dtype)).requires_grad_() for x in wide)
    mask = torch.from_numpy(np.random.default_rng(1).normal(size=(sizes[1], sizes[2])) > -1)
    found = gradients(q, k, v, attn_mask=mask)
    expected = gradients(*wide, attn_mask=mask)
    tolerance = {"float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for a, b in zip(found, expected, strict=True):
        assert str(a.dtype) == f"torch.{dtype}"
        b = b.detach().numpy()
        error = np.abs(a.detach().double().numpy() - b).max()
        assert error <= tolerance * np.abs(b).max()


def test_heads_lie_side_by_side():
    """As in layers: queries, keys and values are parts of one tensor, heads between rows."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 37, 96)).astype(np.float32))
    x.requires_grad_()

    def run():
        parts = (p.view(2, 37, 4, 8).transpose(1, 2) for p in x.split(32, 2))
        y = attend(*parts, is_causal=True).transpose(1, 2).reshape(2, 37, 32)
        return [y, *torch.autograd.grad(y.square().sum(), (x,))]

    compared(run)
    found, _ = code_of(run)
    assert all(isinstance(step, Kernel) for step in found.steps)
    assert [step.name for step in found.steps].count("attend_backward") == 1


ORDERS = {
    "words": (2, 0, 1, 3),
    "batch": (0, 2, 1, 3),
    "heads": (1, 0, 2, 3),
    "turned": (0, 1, 3, 2),
}


def heads_put_in_order(order, sizes, dtype, **given):
    """Heads come from and go into dense memory in this order; the gradients likewise."""
    front, rows, columns, depth, width = sizes
    back = tuple(map(order.index, range(4)))
    made = [x.detach().permute(order).contiguous().requires_grad_()
            for x in operands(front, rows, columns, depth, width)]  # fmt: skip
    cast = [x.to(dtype).permute(back) for x in made]
    y = attend(*cast, **given).permute(order).reshape(-1, width if order[3] == 3 else rows)
    y = y.float() * (torch.arange(y.shape[-1]) / y.shape[-1])
    return [y, *torch.autograd.grad(y.sum(), made)]


@pytest.mark.parametrize("sizes", [((2, 3), 70, 41, 8, 12), ((1, 2), 3, 400, 5, 7)], ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_results_lie_in_the_order_in_which_they_are_read(order, sizes):
    for given in ({}, {"is_causal": sizes[1] == 70}):
        compared(
            lambda given=given: heads_put_in_order(ORDERS[order], sizes, torch.float32, **given)
        )
    made, _ = code_of(lambda: heads_put_in_order(ORDERS[order], sizes, torch.float32))
    copies = [op.name for step in made.steps if isinstance(step, Kernel) for op in step.ops]
    assert order == "turned" or "copy" not in copies


@pytest.mark.parametrize("order", ORDERS)
def test_rows_of_narrow_floats_in_any_order(order):
    sizes = (2, 3), 70, 41, 8, 12
    wide = heads_put_in_order(ORDERS[order], sizes, torch.float32)
    for dtype in (torch.bfloat16, torch.float16):
        for x, y in zip(heads_put_in_order(ORDERS[order], sizes, dtype), wide, strict=True):
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=0.05, atol=0.05)


def test_rows_that_see_nothing_and_special_values():
    q, k, v = operands((2,), 6, 40, 4, 4)
    mask = np.ones((6, 40), bool)
    mask[2] = False
    mask[3, :] = False
    mask[3, 39] = True
    with torch.no_grad():
        q[0, 4, 0] = float("nan")
        q[0, 5, 0] = float("inf")
        k[1, 3, 2] = float("-inf")
    torch.synchronize()  # the writes are left to the reference, and what is pending with them
    compared(lambda: [attend(q, k, v, attn_mask=torch.from_numpy(mask))])


def test_a_mask_that_repeats_keys():
    q, k, v = operands((2, 3), 20, 30, 8, 8)
    padding = torch.from_numpy(np.random.default_rng(2).normal(size=(2, 1, 1, 30)) > 0)
    column = torch.from_numpy(np.random.default_rng(2).normal(size=(20, 1)).astype(np.float32))
    compared(lambda: gradients(q, k, v, attn_mask=padding))
    compared(lambda: gradients(q, k, v, attn_mask=column))


def test_the_gradient_of_a_mask():
    q, k, v = operands((2, 3), 9, 11, 8, 8)
    mask = torch.from_numpy(np.random.default_rng(2).normal(size=(3, 9, 11)).astype(np.float32))
    mask.requires_grad_()

    def run():
        y = attend(q, k, v, attn_mask=mask)
        return torch.autograd.grad(y.square().sum(), (q, mask))

    compared(run)


def test_memory_grows_with_the_rows_only():
    """The arena of a plan for 4096 keys holds less than a tenth of the scores."""
    q, k, v = operands((1,), 32, 32, 16, 16)
    found, _ = code_of(lambda: gradients(q, k, v, is_causal=True))
    extents = found.function.extents
    rows = 4096
    types = dict(enumerate(found.path.types))

    class Larger:
        def __init__(self, shape):
            self.shape = tuple(rows if n == 32 else n for n in shape)

    value = extents.evaluator({i: Larger(t.shape) for i, t in types.items()}, [0] * 64)
    wanted = [(n, value(size), a, b) for n, (size, a, b) in found.lifetimes.items()]
    for k_, step in enumerate(found.steps):
        for j, slot in enumerate(step.slots):
            if slot.kind == "scratch":
                wanted.append(((k_, j), value(slot.a), k_, k_))
    _, total = place_all(wanted)
    assert total < rows * rows * 4 / 10


@pytest.mark.parametrize("drops", [False, True])
def test_the_reference_in_parts(drops, monkeypatch):
    """Many scores: the reference computes a few rows at a time, to the same numbers."""
    from wend._engine.ops.neural import attend as module

    q, k, v = operands((2, 3), 33, 20, 8, 8)

    def run():
        torch.manual_seed(5)
        return gradients(q, k, v, is_causal=True, dropout_p=0.3 * drops)

    def found():
        torch.synchronize()
        return [x.detach().numpy().copy() for x in run()]

    with config.override(compile=False, wait=False):
        whole = found()
        monkeypatch.setattr(module, "_MANY", 150)
        parts = found()
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
