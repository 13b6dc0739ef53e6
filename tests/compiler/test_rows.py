"""Products whose rows or steps lie in another order: few copies, and no product for each row."""

import numpy as np
import pytest
from test_pipeline import code_of, compared, normal

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import CONTRACT
from wend._engine.compiler.ir.symbolic_extents import FirstSizes

HEADS, DEPTH = 3, 5
WIDTH = HEADS * DEPTH


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run, and checked; on a trie of their own."""
    with own_trie(), config.override(compile=True, wait=True, verify=True):
        yield


def products(made):
    """(products, rows in each) of all contractions of a path, and how many copies it makes."""
    size = FirstSizes(made.function.extents, made.path)
    found, copies = [], 0
    for step in made.steps:
        assert isinstance(step, Kernel)
        copies += sum(op.name == "copy" for op in step.ops)
        for op in step.ops:
            if op.kind == CONTRACT:
                batch = [size(a.extent) for a in op.product.batch]
                found.append((int(np.prod(batch)), size(op.product.m.extent)))
    return found, copies


def transposed_result(x, w):
    return (x @ w).transpose(0, 1)


def transposed_operand(x, w):
    return x.transpose(0, 1) @ w


def both_transposed(x, w):
    return (x.transpose(0, 1) @ w).transpose(0, 1)


def joined_heads(x, w):
    n, t, _ = x.shape
    heads = x.view(n, t, HEADS, DEPTH).transpose(1, 2).contiguous()  # (n, heads, t, depth)
    return (heads * 2).permute(2, 0, 1, 3).reshape(t, n, WIDTH) @ w


def joined_and_turned(x, w):
    return joined_heads(x, w).transpose(0, 1)


def split_heads(x, w):
    n, t, _ = x.shape
    return (x @ w).view(n, t, HEADS, DEPTH).permute(2, 0, 1, 3).tanh()


def heads_of_a_transposed_operand(x, w):
    n, t, _ = x.shape
    return (x.transpose(0, 1) @ w).reshape(t, n * HEADS, DEPTH).transpose(0, 1).sigmoid()


def flat_heads(x, w):
    n, t, _ = x.shape
    return (x.view(n, t, HEADS, DEPTH).permute(2, 0, 1, 3) * 2).permute(1, 2, 0, 3).flatten(2) @ w


def some_rows(x, w):
    return x[:, 1:] @ w


def some_rows_turned(x, w):
    return F.relu(x[:, 1:].transpose(0, 1) @ w).transpose(0, 1)


def a_weight_for_each_head(x, w):
    heads = torch.einsum("nte,hed->nhtd", x, w.view(WIDTH, HEADS, DEPTH).transpose(0, 1))
    return torch.einsum("nhtd,hde->nte", heads, w.t().reshape(HEADS, DEPTH, WIDTH))


def four_dims(x, w):
    n, t, _ = x.shape
    return (x.view(n, t, 1, WIDTH).expand(n, t, 2, WIDTH).permute(2, 1, 0, 3) @ w).sum(0)


PROGRAMS = [
    transposed_result, transposed_operand, both_transposed, joined_heads, joined_and_turned,
    split_heads, heads_of_a_transposed_operand, flat_heads, some_rows, some_rows_turned,
    a_weight_for_each_head, four_dims,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("program", PROGRAMS)
def test_forward_and_gradients(program, dtype):
    w = (normal(WIDTH, WIDTH, seed=1, dtype=dtype) / 4).requires_grad_()
    for n, t in ((1, 19), (4, 9), (13, 2), (1, 2)):  # one path: what it met first decides
        x = normal(n, t, WIDTH, dtype=dtype).requires_grad_()
        g = normal(*program(x, w).shape, seed=2, dtype=dtype)

        def run(x=x, g=g):
            y = program(x, w)
            return [y, *torch.autograd.grad(y, (x, w), g)]

        compared(run)


def test_narrow_floats():
    w = normal(WIDTH, WIDTH, seed=1).bfloat16()
    for program in PROGRAMS:
        y = program(normal(3, 7, WIDTH).bfloat16(), w).float().numpy()
        wide = program(normal(3, 7, WIDTH).bfloat16().float(), w.float()).numpy()
        np.testing.assert_allclose(y, wide, rtol=0.05, atol=0.1)


@pytest.mark.parametrize(("n", "t"), [(1, 40), (40, 1), (2, 24), (24, 2)])
@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if p not in (a_weight_for_each_head, some_rows, four_dims)]
)
def test_no_product_has_one_row_where_there_are_more(program, n, t):
    if program is some_rows_turned:
        t += 1
    x, w = normal(n, t, WIDTH).requires_grad_(), normal(WIDTH, WIDTH, seed=1).requires_grad_()
    g = normal(*program(x, w).shape, seed=2)

    def run():
        y = program(x, w)
        return [y, *torch.autograd.grad(y, (x, w), g)]

    found, _ = products(code_of(run)[0])
    assert len(found) == 3 and all(rows >= WIDTH for _, rows in found), found


def test_what_changes_places_once_is_copied_once_for_all_that_read_it():
    """Sums over (t, n) of one operand, and (n, t) of others: each would be copied for each."""
    x, ws = normal(6, 9, WIDTH), [normal(WIDTH, WIDTH, seed=k).requires_grad_() for k in range(3)]
    g = normal(9, 6, WIDTH, seed=5)

    def run():
        turned = x.transpose(0, 1)
        y = sum(F.linear(turned, w).tanh() for w in ws)
        return torch.autograd.grad(y, ws, g)

    found, copies = products(code_of(run)[0])
    assert all(count == 1 for count, _ in found) and copies == 1, (found, copies)
    compared(run)


def parts_with_heads(x, w, lengths=(WIDTH, WIDTH, WIDTH), depth=DEPTH):
    """Attention to all rows by three parts of one product, each viewed as heads."""
    n, t, _ = x.shape
    q, k, v = (x @ w).split(lengths, dim=2)
    q, k = (part.view(n, t, HEADS, DEPTH).transpose(1, 2) for part in (q, k))
    v = v.view(n, t, HEADS, depth).transpose(1, 2)
    weights = torch.softmax(q @ k.transpose(2, 3), dim=3)
    return (weights @ v).transpose(1, 2).reshape(n, t, HEADS * depth)


def test_parts_viewed_as_heads_are_not_copied():
    """Nothing says how wide a head of v is but that all of them are as wide as the part."""
    x, w = normal(4, 7, WIDTH).requires_grad_(), (normal(WIDTH, 3 * WIDTH) * 0.1).requires_grad_()

    def run():
        return list(torch.autograd.grad(parts_with_heads(x, w).square().sum(), [x, w]))

    made, _ = code_of(run)
    assert products(made)[1] == 0
    compared(run)


def test_heads_of_no_rows_may_be_of_any_width():
    def run(n, depth):
        return [
            parts_with_heads(normal(n, 4, WIDTH), normal(WIDTH, 3 * WIDTH, seed=1), depth=depth)
        ]

    compared(lambda: run(2, DEPTH))
    for n, depth in [(0, DEPTH), (0, 2), (3, DEPTH), (0, 9)]:
        (found,) = run(n, depth)
        assert found.numpy().shape == (n, 4, HEADS * depth)
