"""autograd.functional, gradcheck and gradgradcheck."""

import pytest

import wend as torch
from wend.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck


def two(lib):
    x = lib.tensor([[0.5, -1.0], [2.0, 0.3]], dtype=lib.float64)
    y = lib.tensor([1.5, 0.7], dtype=lib.float64)
    return x, y


def product(x, y):
    return (x * x) @ y, (x * y).sum()


def scalar(x, y):
    return ((x @ y) ** 3).sum() + (x * y).sum() * y[0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_jacobian(agree, create_graph):
    def program(lib):
        f = lib.autograd.functional.jacobian
        x, y = two(lib)
        one = f(lambda a: a.exp() * 2, y, create_graph=create_graph)
        many = f(product, (x, y), create_graph=create_graph, vectorize=True)
        single = f(lambda a: (a.sum(), a * 2), y)
        return one, many, single, one.requires_grad

    agree(program)


@pytest.mark.parametrize("create_graph", [False, True])
def test_hessian_and_products(agree, create_graph):
    def program(lib):
        functional = lib.autograd.functional
        x, y = two(lib)
        vx, vy = lib.ones_like(x), lib.tensor([2.0, -1.0], dtype=lib.float64)
        more = {"create_graph": create_graph}
        return [
            functional.hessian(scalar, (x, y), **more),
            functional.hessian(lambda a: (a**3).sum(), y, **more),
            functional.vjp(product, (x, y), (vy, lib.ones((), dtype=lib.float64)), **more),
            functional.jvp(product, (x, y), (vx, vy), **more),
            functional.vhp(scalar, (x, y), (vx, vy), **more),
            functional.hvp(scalar, (x, y), (vx, vy), **more),
            functional.vjp(lambda a: a.sum(), y),
        ]

    agree(program)


def test_differentiating_a_jacobian(agree):
    def program(lib):
        y = lib.tensor([1.5, 0.7], dtype=lib.float64, requires_grad=True)
        j = lib.autograd.functional.jacobian(lambda a: a**3, y, create_graph=True)
        j.sum().backward()
        return j, y.grad

    agree(program)


def test_independent_results(agree):
    def program(lib):
        functional = lib.autograd.functional
        x, y = two(lib)
        return [
            functional.jacobian(lambda a, b: a * 2, (x, y)),
            functional.hessian(lambda a: a.sum(), y),
            functional.jvp(lambda a: lib.ones_like(a), y, y),
            functional.vjp(lambda a: lib.ones(2, dtype=lib.float64), y, y),
        ]

    agree(program)


def test_strict():
    functional = torch.autograd.functional
    x, y = two(torch)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        functional.jacobian(lambda a, b: a * 2, (x, y), strict=True)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        functional.vjp(lambda a: torch.ones(2, dtype=torch.float64), y, y, strict=True)
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        functional.jacobian(lambda a: a * 2, y, strict=True, create_graph=True)


def test_bad_arguments():
    functional = torch.autograd.functional
    x, y = two(torch)
    with pytest.raises(TypeError, match="must be a Tensor or a tuple of Tensors"):
        functional.jacobian(lambda a: 3, y)
    with pytest.raises(TypeError, match="inputs given to it"):
        functional.vjp(lambda a: a, (3,))
    with pytest.raises(RuntimeError, match="v can only be None"):
        functional.vjp(lambda a: a * 2, y)
    with pytest.raises(RuntimeError, match="wrong shape"):
        functional.vjp(lambda a: a * 2, y, x)
    with pytest.raises(RuntimeError, match="1 tensors, 2 are needed"):
        functional.jvp(lambda a, b: a * 2, (x, y), (x,))
    with pytest.raises(RuntimeError, match="single element"):
        functional.hessian(lambda a: a * 2, y)
    with pytest.raises(ValueError, match="strategy"):
        functional.jacobian(lambda a: a, y, strategy="sideways")


# -- gradcheck ------------------------------------------------------------------------------


def inputs():
    return tuple(t.requires_grad_() for t in two(torch))


@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_gradients_pass(fast_mode):
    assert gradcheck(product, inputs(), fast_mode=fast_mode, check_grad_dtypes=True)
    assert gradgradcheck(product, inputs(), fast_mode=fast_mode)
    assert gradcheck(scalar, inputs(), fast_mode=fast_mode)
    assert gradgradcheck(scalar, inputs(), fast_mode=fast_mode)
    assert torch.autograd.gradcheck is gradcheck


def wrong(factor, second=1.0):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return Second.apply(g * factor, x)

    class Second(torch.autograd.Function):
        @staticmethod
        def forward(ctx, g, x):
            ctx.save_for_backward(g, x)
            return 2 * g * x

        @staticmethod
        def backward(ctx, gg):
            g, x = ctx.saved_tensors
            return 2 * gg * x, 2 * gg * g * second

    return Wrong.apply


@pytest.mark.parametrize("fast_mode", [False, True])
def test_wrong_gradients_fail(fast_mode):
    x, _ = inputs()
    assert gradcheck(wrong(1.0), x, fast_mode=fast_mode)
    assert gradgradcheck(wrong(1.0), x, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to"):
        gradcheck(wrong(1.01), x, fast_mode=fast_mode)
    assert not gradcheck(wrong(1.01), x, fast_mode=fast_mode, raise_exception=False)
    assert gradcheck(wrong(1.0, 1.01), x, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(wrong(1.0, 1.01), x, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_large_slopes_may_differ_by_a_share_of_themselves(fast_mode):
    """Differences are less exact there: wrong by 0.01 in 30 000 with this step, far above atol."""
    x = torch.tensor([1.0, 1.5], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: 1e4 * x**3, x, eps=1e-3, atol=1e-5, rtol=1e-3, fast_mode=fast_mode)
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: 1e4 * x**3, x, eps=1e-3, atol=1e-5, rtol=1e-9, fast_mode=fast_mode)


@pytest.mark.parametrize("right", [False, True])
def test_gradcheck_of_missing_gradients(right):
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            if not right:
                return 2 * a + 3 * b
            return (0 if a is None else 2 * a) + (0 if b is None else 3 * b)

    x, _ = inputs()
    if right:
        assert gradcheck(Two.apply, x)
    else:
        with pytest.raises(TypeError, match="NoneType"):
            gradcheck(Two.apply, x)


def test_gradcheck_of_nothing():
    with pytest.raises(ValueError, match="at least one input tensor"):
        gradcheck(product, two(torch))
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(lambda x: x * 2, torch.ones(1, requires_grad=True), atol=0.1)


def test_gradcheck_of_what_differs_each_time():
    class Random(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            Random.calls += 1
            return 2 * g * (1 + 1e-5 * Random.calls)

    x, _ = inputs()
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Random.apply, x)
    assert gradcheck(Random.apply, x, nondet_tol=1e-2)


def test_matrices():
    from wend.autograd.gradcheck import get_analytical_jacobian, get_numerical_jacobian

    x, y = inputs()
    numerical = get_numerical_jacobian(scalar, (x, y), eps=1e-6)
    analytical, reentrant, sizes, types = get_analytical_jacobian((x, y), scalar(x, y))
    assert reentrant
    assert sizes
    assert types
    for a, n in zip(analytical, numerical, strict=True):
        assert a.shape == n.shape
        assert torch.allclose(a, n, atol=1e-6)


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_leaves_results_without_a_history_out(fast):
    """As PyTorch: a constant beside a result with a gradient is not compared; alone it is."""
    x = torch.tensor([0.5, 1.5, -2.0], dtype=torch.float64, requires_grad=True)
    both = (lambda x: (x.detach() * 3, x * 2), lambda x: (x.sin(), x.detach().max()))
    for function in both:
        assert gradcheck(function, (x,), fast_mode=fast)
    wrong = (lambda x: x.detach() * 3, lambda x: (x.detach() * 3, x.detach() + x.detach() * x))
    for function in wrong:
        with pytest.raises(RuntimeError, match="Jacobian mismatch"):
            gradcheck(function, (x,), fast_mode=fast)
