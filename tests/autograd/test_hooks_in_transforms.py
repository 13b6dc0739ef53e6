"""Hooks and `torch.func`: none on derivatives along directions, one call in vmap for all."""

import pytest

import wend

torch = pytest.importorskip("torch")
LIBRARIES = [wend, torch]


def values(x):
    if isinstance(x, tuple | list):
        return [values(y) for y in x]
    return None if x is None else x.detach().tolist()


def both(program, *more):
    ours, theirs = (program(t, *more) for t in LIBRARIES)
    assert ours == theirs
    return ours


def hooked(t, a):
    """3 a, with a hook that doubles gradients on the way."""
    y = a * 1
    if y.requires_grad:
        y.register_hook(lambda g: g * 2)
    return y * 3


def square(t, a):
    return (hooked(t, a) ** 2).sum()


FORWARD = {
    "jvp": lambda t, x, v: t.func.jvp(lambda a: hooked(t, a), (x,), (v,)),
    "linearize": lambda t, x, v: t.func.linearize(lambda a: hooked(t, a), x)[1](v),
    "jacfwd": lambda t, x, v: t.func.jacfwd(lambda a: hooked(t, a))(x),
    "hessian": lambda t, x, v: t.func.hessian(lambda a: square(t, a))(x),
    "forward of reverse": lambda t, x, v: t.func.jvp(
        t.func.grad(lambda a: square(t, a)), (x,), (v,)
    ),
    "forward of forward": lambda t, x, v: t.func.jvp(
        lambda a: t.func.jvp(lambda b: square(t, b), (a,), (v,))[1], (x,), (v,)
    ),
    "mapped jvp": lambda t, x, v: t.func.vmap(
        lambda a: t.func.jvp(lambda b: hooked(t, b), (a,), (a,))[1]
    )(t.stack([x, v])),
}


@pytest.mark.parametrize("name", FORWARD)
def test_derivatives_along_directions_call_no_hooks(name):
    def program(t):
        x, v = t.tensor([1.0, 2.0]), t.tensor([0.5, -1.0])
        return values(FORWARD[name](t, x, v))

    both(program)


def test_dual_tensors_call_no_hooks_of_tensors_leaves_or_nodes():
    def program(t):
        import importlib

        forward = importlib.import_module(f"{t.__name__}.autograd.forward_ad")
        seen = []
        x, v = t.tensor([1.0, 2.0]), t.tensor([0.5, -1.0])
        w = t.tensor([2.0, 3.0], requires_grad=True)
        w.register_hook(lambda g: seen.append("leaf"))
        with forward.dual_level():
            y = forward.make_dual(x, v) * w
            y.register_hook(lambda g: seen.append("tensor"))
            y.grad_fn.register_hook(lambda *_: seen.append("node"))
            tangent = forward.unpack_dual(y * y)[1]
        assert seen == []
        tangent.sum().backward()  # an ordinary backward pass: from here on hooks are called
        return values(tangent), values(w.grad), "leaf" in seen

    both(program)


def test_retained_gradients_are_not_set_by_derivatives_along_directions():
    kept = []

    def f(a):
        y = a * 2
        y.retain_grad()
        kept.append(y)
        return y * y

    x = wend.ones(2)
    assert wend.func.jvp(f, (x,), (x,))[1].tolist() == [8.0, 8.0]
    assert kept[0].grad is None


def test_gradients_call_hooks_once_for_all_examples_of_vmap():
    def program(t):
        seen = []

        def f(a):
            y = a * a

            def hook(g):
                seen.append(tuple(g.shape))
                return g * y * g.sum()  # a sum over the example alone

            y.register_hook(hook)
            return (y * 3).sum()

        grad, vmap = t.func.grad, t.func.vmap
        x = t.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        found = [
            vmap(grad(f))(x),
            vmap(vmap(grad(f)))(t.stack([x, x + 1])),
            vmap(t.func.hessian(f))(x),
            vmap(grad(f), chunk_size=1)(x),
            vmap(lambda q: grad(lambda w: (f(w) * q).sum())(t.ones(3)))(x),
        ]
        return values(found), set(seen)

    both(program)


def test_hooks_inside_of_vmap_can_be_removed_and_can_watch_several_tensors():
    def program(t):
        seen = []

        def f(a):
            y, z = a * a, a * 3
            y.register_hook(lambda g: g * 100).remove()
            a.register_hook(lambda g: g * 10)
            t.autograd.graph.register_multi_grad_hook(
                (y, z), lambda gs: seen.extend(tuple(g.shape) for g in gs)
            )
            return (y * z).sum()

        x = t.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        return values(t.func.vmap(t.func.grad(f))(x)), seen

    both(program)


@pytest.mark.parametrize(
    ("result", "message"), [(lambda g: g.sum(), "changed the size"), (lambda g: 3, "should return")]
)
def test_a_hook_inside_of_vmap_may_return_no_other_thing(result, message):
    def f(a):
        y = a * a
        y.register_hook(result)
        return y.sum()

    with pytest.raises((RuntimeError, TypeError), match=message):
        wend.func.vmap(wend.func.grad(f))(wend.ones(2, 3))
