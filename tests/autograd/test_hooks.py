"""Hooks of tensors, leaves and nodes: when they run, in which order, what they may change."""

import contextlib
import gc
import weakref

import pytest

import wend as torch
from wend._engine.base.errors import ArgumentTypeError, GraphError


def leaf(lib, *numbers):
    return lib.tensor(list(numbers), requires_grad=True)


def test_hooks_replace_gradients_in_order(agree):
    def program(lib):
        x = leaf(lib, 1.0, 2.0)
        h = x * x
        seen = []
        h.register_hook(lambda g: seen.append(g))
        h.register_hook(lambda g: g * 10)
        h.register_hook(lambda g: seen.append(g))
        x.register_hook(lambda g: g + 1)
        (h * 3).sum().backward()
        return x.grad, seen

    agree(program)


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_hooks_may_read_values(agree, when):
    """A hook that reads a value flushes in the middle of the backward pass."""

    def program(lib):
        x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
        h = x * w
        if when == "before":
            h.tolist()
        k = (h * h).exp()
        if when == "between":
            k.tolist()
        seen = []
        h.register_hook(lambda g: seen.append(g.sum().item()))
        k.register_hook(lambda g: seen.append(g.tolist()))
        x.register_hook(lambda g: seen.append(g.tolist()))
        (k * w * 0.01).sum().backward()
        return x.grad, w.grad

    agree(program)


def test_a_hook_sees_the_complete_gradient_once(agree):
    """Also of a leaf used in several segments, before and after a hook."""

    def program(lib):
        calls = []
        w = leaf(lib, 2.0)
        w.register_hook(lambda g: calls.append(g))
        h = w * 3
        h.tolist()
        k = h * w
        k.register_hook(lambda g: calls.append(g))
        k.tolist()
        (k * w + h).sum().backward()
        return w.grad, calls

    agree(program)


def test_order_of_leaf_and_non_leaf_hooks(agree):
    def program(lib):
        names = []

        def note(name):
            return lambda g: names.append(name)

        x, w1, w2, w3 = (leaf(lib, float(k)) for k in range(1, 5))
        for name, t in zip(("x", "w1", "w2", "w3"), (x, w1, w2, w3)):
            t.register_hook(note(name))
        h1 = x * w1
        h1.register_hook(note("h1"))
        h2 = h1 * w2
        h2.register_hook(note("h2"))
        (h2 * w3).sum().backward()
        return [n for n in names if n not in ("x", "w1")], sorted(names)

    agree(program)


def test_post_accumulate_hooks(agree):
    def program(lib):
        seen = []
        x = leaf(lib, 2.0)
        x.register_hook(lambda g: g * 2)
        x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.clone())))
        (x * x).sum().backward()
        (x * 3).sum().backward()
        lib.autograd.grad((x * x).sum(), x)
        return x.grad, seen

    agree(program)


def test_an_optimizer_in_the_backward_pass(agree):
    def program(lib):
        x = leaf(lib, 2.0)

        def step(p):
            with lib.no_grad():
                p.sub_(p.grad, alpha=0.1)
            p.grad = None

        x.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            (x * x).sum().backward()
        return x

    agree(program)


def test_handles_remove_hooks(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        first = x.register_hook(lambda g: g * 2)
        with x.register_hook(lambda g: g * 5):
            (x * 1).sum().backward()
        (x * 1).sum().backward()
        first.remove()
        first.remove()
        (x * 1).sum().backward()
        return x.grad

    agree(program)


def test_a_hook_removed_during_the_pass(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        h = x * 3
        handles = []

        def once(g):
            handles[0].remove()
            return g * 10

        handles.append(h.register_hook(once))
        h.sum().backward(retain_graph=True)
        h.sum().backward()
        return x.grad

    agree(program)


def test_known_paths_call_hooks_each_time():
    calls = []
    x = leaf(torch, 2.0)
    for k in range(6):
        x.grad = None
        h = x * x
        h.register_hook(lambda g, k=k: calls.append(k))
        h.sum().backward()
        assert x.grad.tolist() == [4.0]
    assert calls == [0, 1, 2, 3, 4, 5]
    handle = x.register_hook(lambda g: calls.append("x"))
    (x * x).sum().backward()
    handle.remove()
    (x * x).sum().backward()
    assert calls[6:] == ["x"]


def test_hooks_with_create_graph(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        h = x * x
        h.register_hook(lambda g: g * h)
        y = (h * h).sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        (gg,) = lib.autograd.grad(g.sum(), x)
        return g, gg

    agree(program)


def test_hooks_on_gradients(agree):
    """A gradient made with create_graph is a tensor like any other."""

    def program(lib):
        seen = []
        x = leaf(lib, 2.0)
        (g,) = lib.autograd.grad((x * x * x).sum(), x, create_graph=True)
        g.register_hook(lambda v: seen.append(v))
        (g * g).sum().backward()
        return x.grad, seen

    agree(program)


def test_hooks_and_in_place(agree):
    """A hook belongs to the value that the tensor had when it was registered."""

    def program(lib):
        seen = []
        x = leaf(lib, 2.0)
        h = x * 3
        h.register_hook(lambda g: seen.append(g))
        h.mul_(5)
        h.register_hook(lambda g: seen.append(g))
        h.sum().backward()
        return x.grad, seen

    agree(program)


def test_retain_grad(agree):
    def program(lib):
        x = leaf(lib, 2.0, 3.0)
        h = x * 3
        h.retain_grad()
        h.retain_grad()
        k = h * h
        k.retain_grad()
        k.register_hook(lambda g: g * 2)
        k.sum().backward(retain_graph=True)
        first = [h.grad.clone(), k.grad.clone(), x.grad.clone(), h.retains_grad, x.retains_grad]
        k.sum().backward()
        return first, h.grad, k.grad

    agree(program)


def test_retain_grad_follows_in_place(agree):
    def program(lib):
        x = leaf(lib, 2.0, 3.0)
        h = x * 3
        h.retain_grad()
        h.mul_(2)
        (h * h).sum().backward()
        return h.grad, x.grad

    agree(program)


@pytest.mark.parametrize("read", [False, True])
def test_retain_grad_on_a_known_path(read):
    for _ in range(4):
        x = leaf(torch, 2.0)
        h = x * 3
        if read:
            h.tolist()
        h.retain_grad()
        (h * h).sum().backward()
        assert h.grad.tolist() == [12.0]
        assert x.grad.tolist() == [36.0]


def test_reading_grad_of_a_non_leaf_warns_with_the_line():
    x = leaf(torch, 2.0)
    h = x * 3
    with pytest.warns(UserWarning, match="not a leaf Tensor") as caught:
        assert h.grad is None
    assert caught[0].filename == __file__
    h.retain_grad()
    assert h.grad is None
    assert (torch.ones(1) * 2).grad is None


def test_post_accumulate_hooks_return_nothing():
    x = leaf(torch, 2.0)
    x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))
    with pytest.raises(GraphError, match="should return None, not Tensor"):
        (x * x).sum().backward()
    assert x.grad.tolist() == [12.0]  # the hook has run, as in PyTorch


def test_what_cannot_have_hooks():
    with pytest.raises(GraphError, match="doesn't require gradient"):
        torch.ones(1).register_hook(print)
    x = leaf(torch, 1.0)
    with pytest.raises(GraphError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(ArgumentTypeError, match="callable"):
        x.register_hook(3)
    with pytest.raises(GraphError, match="requires_grad=False"):
        torch.ones(1).retain_grad()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda g: 3, "should return a Tensor or None"),
        (lambda g: g.sum(), "changed the size"),
        (lambda g: g.double(), "changed the type"),
    ],
)
def test_results_of_hooks_that_cannot_be(result, message):
    x = leaf(torch, 1.0, 2.0)
    x.register_hook(result)
    with pytest.raises((TypeError, RuntimeError), match=message):
        (x * 2).sum().backward()


def test_an_error_in_a_hook_leaves_the_switches_alone():
    x = leaf(torch, 1.0)
    h = x * 2
    h.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        h.sum().backward()
    assert torch.is_grad_enabled()
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0]


# -- several tensors ------------------------------------------------------------------------


def test_multi_grad_hooks(agree):
    def program(lib):
        seen = []
        a, b, c = leaf(lib, 1.0), leaf(lib, 2.0), leaf(lib, 3.0)
        h = a * b
        lib.autograd.graph.register_multi_grad_hook(
            (a, h, c), lambda gs: seen.append([None if g is None else g.clone() for g in gs])
        )
        first = lib.autograd.graph.register_multi_grad_hook(
            (b, h), lambda g: seen.append(g.clone()), mode="any"
        )
        (h * 2).sum().backward(retain_graph=True)
        first.remove()
        (h * c).sum().backward()
        return seen

    agree(program)


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hooks_know_nothing_of_a_pass_that_failed(mode):
    seen = []

    def fail(g):
        raise RuntimeError("not this time")

    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    torch.autograd.graph.register_multi_grad_hook((a, b), seen.append, mode=mode)
    for _ in range(8):
        failing = [a.register_hook(fail), b.register_hook(fail)]
        with contextlib.suppress(RuntimeError):  # which would keep the pass, if it were looked at
            (a * b).sum().backward()
        for hook in failing:
            hook.remove()
        seen.clear()
        (a * b).sum().backward()
        assert len(seen) == 1


# -- nodes ----------------------------------------------------------------------------------


def test_node_hooks(agree):
    def program(lib):
        seen = []
        x, w = leaf(lib, 2.0), leaf(lib, 5.0)
        h = x * w
        k = h.exp()
        h.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
        h.grad_fn.register_hook(lambda gi, go: seen.append([*gi, *go]))
        k.grad_fn.register_hook(lambda gi, go: (gi[0] * 3,))
        (k * 1e-3).sum().backward()
        return x.grad, w.grad, seen

    agree(program)


def test_hooks_of_accumulating_nodes(agree):
    def program(lib):
        seen = []
        x = leaf(lib, 2.0)
        node = x.view_as(x).grad_fn.next_functions[0][0]
        node.register_prehook(lambda gs: (gs[0] * 2,))
        node.register_hook(lambda gi, go: seen.append([len(gi), go[0].clone(), x.grad.clone()]))
        for _ in range(2):
            (x * x).sum().backward()
        return x.grad, seen, node.variable is x

    agree(program)


def test_hooks_of_composite_nodes(agree):
    def program(lib):
        seen = []
        x = lib.tensor([[1.0, 2.0], [0.5, -1.0]], requires_grad=True)
        y = lib.softmax(x * 2, dim=1)
        y.grad_fn.register_hook(lambda gi, go: seen.append([gi[0], go[0]]))
        y.register_hook(lambda g: g * 3)
        (y * y).sum().backward()
        return x.grad, seen

    agree(program)


def test_a_hook_is_freed_with_its_graph():
    class Marker:
        pass

    for read in (False, True):
        marker = Marker()
        dead = weakref.ref(marker)
        x = leaf(torch, 2.0)
        h = x * 2
        h.register_hook(lambda g, marker=marker: None)
        if read:
            h.tolist()
        y = h.sum()
        if read:
            y.item()
        gc.disable()
        try:
            del marker, h, y
            torch.synchronize()
            assert dead() is None
        finally:
            gc.enable()
