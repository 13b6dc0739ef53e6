"""`vmap` over `autograd.Function`: rules that are generated, given, or neither; gradients."""

import importlib
from typing import ClassVar

import numpy as np
import pytest

import wend


def functions(torch):
    """User-defined functions of one of the two libraries."""

    class Generated(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y * 2, g * x * 3  # not the derivative: its own is to be called

    class Ruled(torch.autograd.Function):
        seen: ClassVar[list] = []

        @staticmethod
        def forward(x, k):
            return x.sin() * k, x + k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g, h):
            (x,) = ctx.saved_tensors
            return g * x.cos() * ctx.k + h * 5, None

        @staticmethod
        def vmap(info, in_dims, x, k):
            Ruled.seen.append((info.batch_size, info.randomness, in_dims[1]))  # dims are moved
            y, z = Ruled.apply(x.movedim(in_dims[0], 0), k)
            return (y, z.movedim(0, -1)), (0, z.dim() - 1)

    class SavesResult(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    return Generated, Ruled, SavesResult


# Each of (torch, func, functions, x (3, 4), y (3, 4), v (4,)).
CASES = {
    "both mapped": lambda t, f, c, x, y, v: f.vmap(c[0].apply)(x, y),
    "one mapped": lambda t, f, c, x, y, v: f.vmap(c[0].apply, in_dims=(0, None))(x, v),
    "other dims": lambda t, f, c, x, y, v: f.vmap(c[0].apply, in_dims=(1, 1), out_dims=1)(x, y),
    "gradients of examples": lambda t, f, c, x, y, v: f.vmap(
        f.grad(lambda a, b: c[0].apply(a, b).sum(), argnums=(0, 1))
    )(x, y),
    "gradients beside a shared one": lambda t, f, c, x, y, v: f.vmap(
        f.grad(lambda a, b: c[0].apply(a, b).sum(), argnums=(0, 1)), in_dims=(0, None)
    )(x, v),
    "gradient of a map": lambda t, f, c, x, y, v: f.grad(lambda a: f.vmap(c[0].apply)(a, y).sum())(
        x
    ),
    "gradient of the shared one": lambda t, f, c, x, y, v: f.grad(
        lambda b: f.vmap(c[0].apply, in_dims=(0, None))(x, b).sum()
    )(v),
    "map in a map": lambda t, f, c, x, y, v: f.vmap(
        lambda a: f.vmap(lambda b: c[0].apply(a, b))(y)
    )(x),
    "gradient of a map in a map": lambda t, f, c, x, y, v: f.grad(
        lambda s: f.vmap(f.vmap(c[0].apply))(s, y).sum()
    )(x),
    "jacobian": lambda t, f, c, x, y, v: f.jacrev(lambda a: c[0].apply(a, v))(v),
    "second derivatives": lambda t, f, c, x, y, v: f.vmap(
        f.grad(lambda a: f.grad(lambda b: c[2].apply(b).sum())(a).sum())
    )(x),
    "own rule": lambda t, f, c, x, y, v: f.vmap(lambda a: c[1].apply(a, 2.0))(x),
    "own rule, other dim": lambda t, f, c, x, y, v: f.vmap(lambda a: c[1].apply(a, 2.0), in_dims=1)(
        x
    ),
    "own rule, gradients": lambda t, f, c, x, y, v: f.vmap(
        f.grad(lambda a: sum(r.sum() for r in c[1].apply(a, 2.0)))
    )(x),
    "saved result": lambda t, f, c, x, y, v: f.vmap(f.grad(lambda a: c[2].apply(a).sum()))(x),
    "backward": lambda t, f, c, x, y, v: t.autograd.grad(f.vmap(c[0].apply)(x, y).sum(), [x, y]),
    "backward of the rule": lambda t, f, c, x, y, v: t.autograd.grad(
        f.vmap(lambda a: c[1].apply(a, 2.0)[1])(x).sum(), [x]
    ),
}


def outcome(torch, name):
    func = importlib.import_module(f"{torch.__name__}.func")
    made = functions(torch)
    x = torch.arange(12.0).reshape(3, 4) / 5
    x, y, v = x, torch.linspace(-1, 1, 12).reshape(3, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])
    if name.startswith("backward"):
        x.requires_grad_()
        y.requires_grad_()
    found = CASES[name](torch, func, made, x, y, v)
    arrays = [np.asarray(t.detach()) for t in (found if isinstance(found, tuple) else (found,))]
    return arrays, made[1].seen


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name):
    torch = pytest.importorskip("torch")
    (got, told), (want, told_there) = outcome(wend, name), outcome(torch, name)
    assert told == told_there and len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_gradients_of_examples_are_those_that_backward_gives():
    (by_x, by_y), _ = outcome(wend, "gradients of examples")
    x, y = np.arange(12.0).reshape(3, 4) / 5, np.linspace(-1, 1, 12).reshape(3, 4)
    np.testing.assert_allclose(by_x, 2 * y, rtol=1e-6)
    np.testing.assert_allclose(by_y, 3 * x, rtol=1e-6)


def test_a_rule_and_a_generated_one_exclude_each_other():
    class Both(wend.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return x, 0

    with pytest.raises(RuntimeError, match="choose one"):
        wend.func.vmap(Both.apply)(wend.ones(2))
