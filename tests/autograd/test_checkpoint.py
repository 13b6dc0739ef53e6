"""utils.checkpoint: the same gradients with less memory."""

import pytest

import wend as torch
from wend.utils.checkpoint import checkpoint, checkpoint_sequential


def leaf(lib, *numbers):
    return lib.tensor(list(numbers), requires_grad=True)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_the_same_gradients(agree, reentrant, read):
    def program(lib):
        x, w = leaf(lib, 1.0, 2.0), leaf(lib, 0.5, -1.0)

        def block(a, scale):
            h = (a * w).exp()
            return (h * a).tanh() * scale, h

        y, h = lib.utils.checkpoint.checkpoint(block, x * 2, 3.0, use_reentrant=reentrant)
        if read:
            y.tolist()
        (y * y + h).sum().backward()
        return y, x.grad, w.grad

    agree(program)


@pytest.mark.parametrize("read", [False, True])
def test_keywords_nesting_and_higher_orders(agree, read):
    def program(lib):
        again = lib.utils.checkpoint.checkpoint
        x = leaf(lib, 1.0, 2.0)

        def inner(a):
            return (a * x).sin()

        def outer(a, *, power, parts):
            h = again(inner, a, use_reentrant=False)
            return [h**power, parts["b"] * h]

        y, z = again(outer, x * 2, power=3, parts={"b": x * 3}, use_reentrant=False)
        if read:
            z.tolist()
        (g,) = lib.autograd.grad((y * z).sum(), x, create_graph=True)
        if read:
            g.tolist()
        (gg,) = lib.autograd.grad((g * g).sum(), x)
        return g, gg

    agree(program)


def saved_bytes(y):
    """Bytes of what is saved for a backward pass from y, in all segments that lead there."""
    waiting, seen = [y.value.segment], {}
    while waiting:
        segment = waiting.pop()
        if segment is not None and id(segment) not in seen:
            seen[id(segment)] = segment
            waiting += [value.segment for value in segment.inputs.values()]
    arrays = {id(a): a for s in seen.values() for _, a in s.saved.values()}
    return sum(array.nbytes for array in arrays.values())


def deep(x, w):
    for _ in range(10):
        x = (x * w).tanh()
    return x


def test_memory():
    n = 10_000
    x, w = torch.ones(n, requires_grad=True), torch.ones(n, requires_grad=True)
    plain = deep(x, w).sum()
    plain.item()
    kept = checkpoint(deep, x, w, use_reentrant=False).sum()
    kept.item()
    assert saved_bytes(plain) >= 10 * 4 * n
    assert saved_bytes(kept) <= 2 * 4 * n
    plain.backward()
    wanted = w.grad
    w.grad = None
    kept.backward()
    assert torch.equal(w.grad, wanted)


def test_blocks_in_a_row_are_blocks_of_their_own():
    n = 10_000
    x, w = torch.ones(n, requires_grad=True), torch.ones(n, requires_grad=True)
    h = x
    for _ in range(3):
        h = checkpoint(deep, h, w, use_reentrant=False)
    y = h.sum()
    y.item()
    assert saved_bytes(y) <= 4 * 4 * n
    y.backward()
    again = torch.autograd.grad(deep(deep(deep(x, w), w), w).sum(), [x, w])
    assert torch.equal(x.grad, again[0])
    assert torch.allclose(w.grad, again[1])


def test_random_numbers_are_replayed():
    x = torch.ones(1000, requires_grad=True)
    for read in (False, True, False):
        x.grad = None
        y = checkpoint(
            lambda a: torch.nn.functional.dropout(a.exp().log(), 0.5), x, use_reentrant=False
        )
        if read:
            y.tolist()
        y.sum().backward()
        kept = y.detach() > 0
        assert torch.equal(x.grad > 0, kept)
        assert 300 < int(kept.sum()) < 700


def test_a_value_read_inside():
    """A flush inside of the block: two segments, each with what enters it."""
    x, w = leaf(torch, 1.0, 2.0), leaf(torch, 0.5, 0.25)

    def block(a):
        h = (a * w).exp()
        if h.sum() > 0:
            h = (h * a).tanh()
        return h

    for call in (block, lambda a: checkpoint(block, a, use_reentrant=False)):
        call(x * 2).sum().backward()
    assert torch.allclose(x.grad, 2 * torch.autograd.grad(block(x * 2).sum(), x)[0])


def test_users_functions_inside(agree):
    def program(lib):
        class Cube(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(a)
                return a * a * a

            @staticmethod
            def backward(ctx, g):
                (a,) = ctx.saved_tensors
                return 3 * a * a * g

        x = leaf(lib, 0.5, 2.0)
        y = lib.utils.checkpoint.checkpoint(
            lambda a: Cube.apply(a.sin()).exp(), x, use_reentrant=False
        )
        y.sum().backward()
        return x.grad

    agree(program)


def test_sequential(agree):
    def program(lib):
        w = [leaf(lib, 0.1 * k, 1.0) for k in range(1, 6)]
        functions = [lambda a, v=v: (a * v).tanh() for v in w]
        x = leaf(lib, 1.0, 2.0)
        y = lib.utils.checkpoint.checkpoint_sequential(functions, 2, x, use_reentrant=False)
        y.sum().backward()
        return y, x.grad, [v.grad for v in w]

    agree(program)


def test_a_module():
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(5)])
    x = torch.randn(3, 4, requires_grad=True)
    checkpoint_sequential(model, 3, x, use_reentrant=False).sum().backward()
    grads = [p.grad for p in model.parameters()]
    for p in model.parameters():
        p.grad = None
    model(x).sum().backward()
    for g, p in zip(grads, model.parameters(), strict=True):
        assert torch.allclose(g, p.grad)


def test_reentrant_without_inputs_that_require_grad():
    w = leaf(torch, 2.0)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = checkpoint(lambda a: a * w, torch.ones(1), use_reentrant=True)
    assert not y.requires_grad
    assert checkpoint(lambda a: a * w, torch.ones(1), use_reentrant=False).requires_grad


def test_contexts_and_arguments_that_cannot_be():
    seen = []

    class Note:
        def __enter__(self):
            seen.append("in")

        def __exit__(self, *rest):
            seen.append("out")

    x = leaf(torch, 2.0)
    y = checkpoint(lambda a: a * 2, x, use_reentrant=False, context_fn=lambda: (Note(), Note()))
    y.backward()
    assert seen == ["in", "out"]
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(lambda a: a, x, use_reentrant=True, context_fn=lambda: (Note(), Note()))
    with pytest.raises(ValueError, match="unexpected keyword"):
        checkpoint(lambda a: a, x, use_reentrant=True, more=1)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(lambda a: a, x, determinism_check="maybe")
    with pytest.raises(ZeroDivisionError):
        checkpoint(lambda a: 1 / 0, x)
    assert (x * 2).requires_grad
    assert checkpoint(lambda a: a * 2, x, preserve_rng_state=False).tolist() == [4.0]
