"""autograd.Function: users' own backward passes."""

import gc
import weakref

import numpy as np
import pytest

import wend as torch
from wend._engine.base.errors import GraphError


def leaf(lib, *numbers, **options):
    return lib.tensor(list(numbers), requires_grad=True, **options)


def cube(lib, calls=None):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            assert not lib.is_grad_enabled()
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x * x * x * scale

        @staticmethod
        def backward(ctx, g):
            if calls is not None:
                calls.append(ctx.needs_input_grad)
            (x,) = ctx.saved_tensors
            return g * 3 * x * x * ctx.scale, None

    return Cube


@pytest.mark.parametrize("read", [False, True])
def test_first_and_second_order(agree, read):
    def program(lib):
        calls = []
        x = leaf(lib, 2.0, -1.0)
        y = cube(lib, calls).apply(x * 2, 0.5)
        if read:
            y.tolist()
        (g,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
        if read:
            g.tolist()
        (gg,) = lib.autograd.grad(g.sum(), x)
        return y, g, gg, calls, type(y.grad_fn).__name__

    agree(program)


def test_users_python_runs_every_time():
    calls = []
    function = cube(torch, calls)
    x = leaf(torch, 2.0)
    for _ in range(5):
        x.grad = None
        function.apply(x, 1.0).sum().backward()
        assert x.grad.tolist() == [12.0]
    assert len(calls) == 5


def test_setup_context(agree):
    def program(lib):
        class Product(lib.autograd.Function):
            @staticmethod
            def forward(a, b):
                return a * b, a + b

            @staticmethod
            def setup_context(ctx, inputs, output):
                a, b = inputs
                ctx.save_for_backward(a, b, output[0])

            @staticmethod
            def backward(ctx, gp, gs):
                a, b, p = ctx.saved_tensors
                assert p is not None
                return gp * b + gs, gp * a + gs

        x, y = leaf(lib, 2.0, 3.0), leaf(lib, 5.0, 7.0)
        p, s = Product.apply(x, y)
        (p * s).sum().backward()
        return p, s, x.grad, y.grad, p.output_nr, s.output_nr, p.grad_fn is s.grad_fn

    agree(program)


@pytest.mark.parametrize("read", [False, True])
def test_saved_results_and_double_backward(agree, read):
    """A result that was saved is differentiated as the result, not as what it was made of."""

    def program(lib):
        class Exp(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx, g):
                (y,) = ctx.saved_tensors
                return g * y

        x = leaf(lib, 0.5, -1.0)
        y = Exp.apply(x)
        if read:
            y.tolist()
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        if read:
            g.tolist()
        (gg,) = lib.autograd.grad(g.sum(), x, create_graph=True)
        (ggg,) = lib.autograd.grad(gg.sum(), x)
        return g, gg, ggg

    agree(program)


def test_missing_gradients(agree):
    def program(lib):
        seen = []

        class Two(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, materialize):
                ctx.set_materialize_grads(materialize)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, ga, gb):
                seen.append([ga, gb])
                return (0 if ga is None else 2 * ga) + (0 if gb is None else 3 * gb), None

        x = leaf(lib, 1.0, 2.0)
        for materialize in (True, False):
            _a, b = Two.apply(x, materialize)
            b.sum().backward()
        return x.grad, seen

    agree(program)


def test_non_differentiable_results(agree):
    def program(lib):
        class Sort(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                values, order = x.sort()
                twice = values * 2
                ctx.mark_non_differentiable(twice, order)
                ctx.save_for_backward(order)
                return values, twice, order, "text", 7

            @staticmethod
            def backward(ctx, g, g2, g3, g4, g5):
                assert g4 is None
                assert g5 is None
                (order,) = ctx.saved_tensors
                return lib.zeros_like(g).index_copy(0, order, g)

        x = leaf(lib, 3.0, 1.0, 2.0)
        values, twice, order, text, seven = Sort.apply(x)
        (values * lib.tensor([1.0, 10.0, 100.0])).sum().backward()
        return values, twice.requires_grad, order.requires_grad, text, seven, x.grad

    agree(program)


def test_mark_dirty(agree):
    def program(lib):
        class Double(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                x.mul_(2)
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 2

        x = leaf(lib, 1.0, 2.0)
        h = x * 3
        out = Double.apply(h)
        k = x * 5
        Double.apply(k[0])
        (h * h + k).sum().backward()
        return out is h, h, k, x.grad

    agree(program)


def test_a_leaf_cannot_be_dirty():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

    with pytest.raises(GraphError, match="leaf Variable that requires grad"):
        Double.apply(leaf(torch, 1.0))


def test_inputs_that_are_results(agree):
    def program(lib):
        class Pass(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x, y

            @staticmethod
            def backward(ctx, gx, gy):
                return gx * 10, gy

        x, y = leaf(lib, 1.0), lib.tensor([2.0])
        a, b = Pass.apply(x, y)
        (a * b).sum().backward()
        return a is x, b is y, x.grad

    agree(program)


def test_an_input_given_twice(agree):
    def program(lib):
        class Product(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                return a * b

            @staticmethod
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                return g * b, g * a

        x = leaf(lib, 3.0)
        h = x * 2
        (Product.apply(h, h) + Product.apply(x, x)).sum().backward()
        return x.grad

    agree(program)


def test_gradients_are_reduced_and_cast(agree):
    def program(lib):
        class Add(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                return a + b

            @staticmethod
            def backward(ctx, g):
                return g, g.double()

        a = lib.ones(3, 1, requires_grad=True)
        b = lib.ones(4, requires_grad=True)
        y = Add.apply(a, b)
        (y * y).sum().backward()
        return a.grad, b.grad

    agree(program)


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        ((), RuntimeError, r"incorrect number of gradients \(expected 2, got 0\)"),
        ((1, 2), TypeError, "expected a Tensor or None"),
        (None, RuntimeError, r"expected 2, got 1"),
    ],
)
def test_wrong_results_of_backward(result, error, message):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def backward(ctx, g):
            return result

    with pytest.raises(error, match=message):
        Wrong.apply(leaf(torch, 1.0), 2).sum().backward()


def test_gradients_of_the_wrong_shape_or_for_numbers():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n, which):
            ctx.which = which
            return x * n

        @staticmethod
        def backward(ctx, g):
            return (g, g, None) if ctx.which else (torch.ones(3), None, None)

    x = leaf(torch, 1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got \[3\]"):
        Wrong.apply(x, 2, 0).sum().backward()
    with pytest.raises(RuntimeError, match="different from None at position 1"):
        Wrong.apply(x, 2, 1).sum().backward()


def test_trailing_nones_are_ignored(agree):
    def program(lib):
        class Extra(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2, None, None

        x = leaf(lib, 1.0)
        Extra.apply(x).sum().backward()
        return x.grad

    agree(program)


@pytest.mark.parametrize("read", [False, True])
def test_saved_tensors_are_freed(read):
    x = leaf(torch, 2.0)
    y = cube(torch).apply(x, 1.0)
    if read:
        y.tolist()
    z = y.sum()
    z.backward(retain_graph=True)
    z.backward()
    with pytest.raises(GraphError, match="freed"):
        z.backward()


def test_saved_inputs_are_the_same_objects(agree):
    def program(lib):
        same = []

        class Keep(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(x, y, None)
                return x * y

            @staticmethod
            def backward(ctx, g):
                a, b, c = ctx.saved_tensors
                same.extend([a is x, b is h, c is None])
                return g * b, g * a

        x = leaf(lib, 2.0)
        h = x * 3
        Keep.apply(x, h).sum().backward()
        return same, x.grad

    agree(program)


def test_saved_tensors_are_as_they_were():
    """PyTorch refuses; here the values count that were saved."""
    x = leaf(torch, 2.0)
    h = x * 1
    y = cube(torch).apply(h, 1.0)
    h.add_(100)
    y.sum().backward()
    assert x.grad.tolist() == [12.0]


def test_only_tensors_can_be_saved():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x

    with pytest.raises(TypeError, match="save_for_backward can only save variables"):
        Bad.apply(leaf(torch, 1.0))


def test_once_differentiable(agree):
    def program(lib):
        class Square(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @lib.autograd.function.once_differentiable
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                assert not lib.is_grad_enabled()
                return g * 2 * x

        x = leaf(lib, 3.0)
        Square.apply(x).sum().backward()
        (g,) = lib.autograd.grad((Square.apply(x) ** 2).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.sum().backward()
        return x.grad, g

    agree(program)


def test_without_gradient(agree):
    def program(lib):
        with lib.no_grad():
            a = cube(lib).apply(leaf(lib, 2.0), 1.0)
        b = cube(lib).apply(lib.tensor([2.0]), 1.0)
        return a.requires_grad, b.requires_grad, a, b

    agree(program)


def test_needs_input_grad(agree):
    def program(lib):
        seen = []

        class Three(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, b, c):
                seen.append(ctx.needs_input_grad)
                return a + b * c

            @staticmethod
            def backward(ctx, g):
                seen.append(ctx.needs_input_grad)
                return g, None, None

        a, b = leaf(lib, 1.0), lib.tensor([2.0])
        Three.apply(a, b, 4.0).sum().backward()
        return seen, a.grad

    agree(program)


def test_enable_grad_inside_forward(agree):
    """The reentrant way to checkpoint by hand: backward inside of backward."""

    def program(lib):
        class Again(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                return (x * w).exp()

            @staticmethod
            def backward(ctx, g):
                x, w = (t.detach().requires_grad_() for t in ctx.saved_tensors)
                with lib.enable_grad():
                    y = (x * w).exp()
                lib.autograd.backward(y, g)
                return x.grad, w.grad

        x, w = leaf(lib, 0.5), leaf(lib, 2.0)
        h = x * 2
        (Again.apply(h, w) * w).sum().backward()
        return x.grad, w.grad

    agree(program)


def test_numpy_inside(agree):
    """forward and backward may leave the framework."""

    def program(lib):
        class Sine(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                array = x.detach().numpy()
                ctx.cosine = np.cos(array)
                return lib.from_numpy(np.sin(array))

            @staticmethod
            def backward(ctx, g):
                return g * lib.from_numpy(ctx.cosine)

        x = leaf(lib, 0.5, 1.5)
        (Sine.apply(x * 2) * x).sum().backward()
        return x.grad

    agree(program)


def test_hooks_around_a_function(agree):
    def program(lib):
        seen = []
        x = leaf(lib, 2.0)
        y = cube(lib).apply(x, 1.0)
        y.register_hook(lambda g: g * 2)
        y.retain_grad()
        y.grad_fn.register_hook(lambda gi, go: seen.append([gi[0], go[0]]))
        (y * 3).sum().backward()
        return x.grad, y.grad, seen

    agree(program)


def test_through_grad_fn(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        y = cube(lib).apply(x, 4.0)
        node = y.grad_fn
        edges = [(type(n).__name__, k) for n, k in node.next_functions]
        return node.scale, node.saved_tensors, edges, node.name()

    agree(program)


def test_instances_and_missing_methods():
    with pytest.raises(RuntimeError, match="apply"):
        cube(torch)()

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    with pytest.raises(NotImplementedError, match="backward"):
        Nothing.apply(leaf(torch, 1.0)).sum().backward()
    with pytest.raises(NotImplementedError, match="forward"):
        torch.autograd.Function.apply(leaf(torch, 1.0))


@pytest.mark.parametrize("read", [False, True])
def test_a_graph_with_functions_is_freed(read):
    """The results, which may be saved, do not keep themselves alive."""
    died = []

    class Marker:
        pass

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            ctx.marker = Marker()
            died.append(weakref.ref(ctx.marker))
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    gc.collect()
    gc.disable()
    try:
        x = leaf(torch, 1.0)
        y = Keep.apply(x * 3)
        if read:
            y.tolist()
        z = (y * y).sum()
        z.backward()
        if read:
            z.item()
        del y, z
        torch.synchronize()
        assert [r() for r in died] == [None]
    finally:
        gc.enable()


def test_saved_tensors_hooks(agree):
    def program(lib):
        seen = []

        def pack(t):
            seen.append("pack")
            return t.detach().numpy() * 1

        def unpack(a):
            seen.append("unpack")
            return lib.from_numpy(a)

        x = leaf(lib, 2.0)
        with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
            h = cube(lib).apply(x, 1.0)
        h.sum().backward()
        return x.grad, seen

    agree(program)


def test_disabled_saved_tensors_hooks():
    graph = torch.autograd.graph
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(GraphError, match="not here"),
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        pass
    with graph.save_on_cpu(), graph.allow_mutation_on_saved_tensors():
        x = leaf(torch, 2.0)
        cube(torch).apply(x, 1.0).sum().backward()
    assert x.grad.tolist() == [12.0]
