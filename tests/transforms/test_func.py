"""torch.func: derivatives as functions, nested in each other and in vmap; against PyTorch."""

import numpy as np
import pytest
from both import compare

import wend
import wend.func
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend.func import grad, grad_and_value, jacfwd, jacrev, jvp, vjp, vmap

rng = np.random.default_rng(1)
X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
M = rng.normal(size=(3, 4))


def f(a):
    return (a.sin() * a).sum()


def closure(T, F, x, y, m):
    """A weight that the differentiated function closes over gets its gradient too."""
    m.requires_grad_()
    g = F.grad(lambda a: T.tanh(a @ m).sum())(x)
    g.pow(2).sum().backward()
    return m.grad


def outer(T, F, x, y, m):
    x.requires_grad_()
    g = F.grad(lambda a: T.tanh(a @ m).sum())(x)
    g.pow(2).sum().backward()
    return x.grad


def without_grad(T, F, x, y, m):
    with T.no_grad():
        return F.grad(f)(x)


def per_example(T, F, x, y, m):
    def loss(w, a, b):
        return ((T.tanh(a @ w).sum() - b.sum()) ** 2).sum()

    return F.vmap(F.grad(loss), (None, 0, 0))(m, x, y)


CASES = {
    "grad": lambda T, F, x, y, m: F.grad(f)(x),
    "grad of two": lambda T, F, x, y, m: F.grad(lambda a, b: (a * b).sum(), (0, 1))(x, y),
    "grad of the last": lambda T, F, x, y, m: F.grad(lambda a, b: (a * b * b).sum(), -1)(x, y),
    "grad of a tree": lambda T, F, x, y, m: F.grad(lambda d: (d["a"] * d["b"][0]).sum())(
        {"a": x, "b": [y]}
    ),
    "unused": lambda T, F, x, y, m: F.grad(lambda a, b: a.sum(), (0, 1))(x, y),
    "twice": lambda T, F, x, y, m: F.grad(lambda a: F.grad(f)(a).pow(3).sum())(x),
    "thrice": lambda T, F, x, y, m: F.grad(lambda a: F.grad(lambda b: F.grad(f)(b).sum())(a).sum())(
        x
    ),
    "detach": lambda T, F, x, y, m: F.grad(lambda a: (a * a.detach()).sum())(x),
    "per example": per_example,
    "of a vmap": lambda T, F, x, y, m: F.grad(
        lambda w: F.vmap(lambda a: T.tanh(a @ w).sum())(x).sum()
    )(m),
    "value and aux": lambda T, F, x, y, m: F.grad_and_value(lambda a: (f(a), a * 2), has_aux=True)(
        x
    ),
    "grad and aux": lambda T, F, x, y, m: F.grad(lambda a: (f(a), {"aux": a * 2}), has_aux=True)(x),
    "closure": closure,
    "outer": outer,
    "no_grad": without_grad,
    "vjp": lambda T, F, x, y, m: (F.vjp(T.mul, x, y)[0], F.vjp(T.mul, x, y)[1](x)),
    "vjp of one": lambda T, F, x, y, m: F.vjp(lambda a: a @ m, x)[1](x @ m),
    "vjp of trees": lambda T, F, x, y, m: F.vjp(lambda a: {"p": a @ m, "q": a.sum()}, x)[1](
        {"p": x @ m, "q": T.tensor(2.0, dtype=T.float64)}
    ),
    "vjp twice": lambda T, F, x, y, m: (lambda pull: pull((x,))[0] + pull((y,))[0])(
        F.vjp(lambda a: (a.sin(),), x)[1]
    ),
    "vjp aux": lambda T, F, x, y, m: F.vjp(lambda a: (a * 2, a + 1), x, has_aux=True)[2],
    "jvp": lambda T, F, x, y, m: F.jvp(T.mul, (x, y), (y, x)),
    "jvp of no dependence": lambda T, F, x, y, m: F.jvp(lambda a: y * 2, (x,), (y,)),
    "jvp of a linear function": lambda T, F, x, y, m: F.jvp(lambda a: a @ m, (x,), (y,)),
    "jvp of a gradient": lambda T, F, x, y, m: F.jvp(F.grad(f), (x,), (y,)),
    "jvp aux": lambda T, F, x, y, m: F.jvp(lambda a: (a.sin(), a + 1), (x,), (y,), has_aux=True),
    "grad of jvp": lambda T, F, x, y, m: F.grad(lambda a: F.jvp(T.sin, (a,), (y,))[1].sum())(x),
    "jacrev": lambda T, F, x, y, m: F.jacrev(lambda a: a.sin().sum(0))(x),
    "jacfwd": lambda T, F, x, y, m: F.jacfwd(lambda a: a.sin().sum(0))(x),
    "jacobians of two": lambda T, F, x, y, m: F.jacrev(lambda a, b: (a * b).sum(1), (0, 1))(x, y),
    "columns of two": lambda T, F, x, y, m: F.jacfwd(lambda a, b: (a * b).sum(1), (0, 1))(x, y),
    "jacobian of trees": lambda T, F, x, y, m: F.jacrev(
        lambda d: {"p": d["x"].sum(0), "q": d["x"].sum()}
    )({"x": x}),
    "jacobian of no dependence": lambda T, F, x, y, m: F.jacrev(lambda a: y.sum(0))(x),
    "jacobian of a 0-d": lambda T, F, x, y, m: (F.jacrev(T.sin)(x[0, 0]), F.jacfwd(T.sin)(x[0, 0])),
    "jacobian aux": lambda T, F, x, y, m: F.jacrev(lambda a: (a.sin().sum(0), a[0]), has_aux=True)(
        x
    ),
    "jacobian of a product": lambda T, F, x, y, m: F.jacrev(lambda w: (x @ w).softmax(-1))(m),
    "rows in vmap": lambda T, F, x, y, m: F.vmap(F.jacrev(lambda a: a.sin().cumsum(0)))(x),
    "columns in vmap": lambda T, F, x, y, m: F.vmap(F.jacfwd(lambda a: a.sin().cumsum(0)))(x),
    "vmap of a pull": lambda T, F, x, y, m: F.vmap(F.vjp(lambda a: (a * 2).sin(), x[0])[1])(y),
    "vmap of vmap of a pull": lambda T, F, x, y, m: F.vmap(
        F.vmap(F.vjp(lambda a: (a * 2).sin(), x[0])[1])
    )(T.stack([x, y])),
    "pull in vmap of rows": lambda T, F, x, y, m: F.vmap(
        lambda a: F.vmap(F.vjp(T.sin, a)[1])(T.eye(3, dtype=T.float64))
    )(x),
    "hessian": lambda T, F, x, y, m: F.hessian(f)(x[0]),
    "hessian of two": lambda T, F, x, y, m: F.hessian(lambda a, b: (a * b * b).sum(), (0, 1))(
        x[0], y[0]
    ),
    "hessian in vmap": lambda T, F, x, y, m: F.vmap(F.hessian(f))(x),
    "rows of rows": lambda T, F, x, y, m: F.jacrev(F.jacrev(f))(x[0]),
    "third derivative": lambda T, F, x, y, m: F.jacrev(F.hessian(f))(x[0]),
    "linearize": lambda T, F, x, y, m: F.linearize(lambda a: a.sin(), x)[1](y),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_torch(case):
    compare(CASES[case], X, Y, M)


@pytest.mark.smoke
def test_formulas():
    x = wend.tensor([0.5, -1.0], dtype=wend.float64)
    np.testing.assert_allclose(grad(lambda a: a.sin().sum())(x).numpy(), np.cos(x.numpy()))
    np.testing.assert_allclose(jacrev(wend.sin)(x).numpy(), np.diag(np.cos(x.numpy())))
    np.testing.assert_allclose(jacfwd(wend.exp)(x).numpy(), np.diag(np.exp(x.numpy())))
    out, tangent = jvp(wend.exp, (x,), (2 * x,))
    np.testing.assert_allclose(tangent.numpy(), 2 * x.numpy() * np.exp(x.numpy()))
    assert not out.requires_grad
    assert not tangent.requires_grad


def test_integer_valued_seeds_take_the_dtype_of_the_output():
    _, pull = vjp(wend.sin, wend.zeros(3))
    assert pull(wend.ones(3, dtype=wend.float64))[0].dtype is wend.float32


def test_the_rows_of_a_jacobian_are_one_pass():
    """Not one backward pass per row: the time does not follow the number of rows."""
    from wend._engine.transforms import pullback

    x = wend.randn(40)
    before = pullback._one_by_one
    try:
        pullback._one_by_one = None
        jacobian = jacrev(lambda a: (a * a).cumsum(0))(x)
    finally:
        pullback._one_by_one = before
    np.testing.assert_allclose(
        jacobian.numpy(), np.tril(np.tile(2 * x.numpy(), (40, 1))), rtol=1e-6
    )


def test_hooks_see_one_row_at_a_time():
    shapes = []
    w = wend.ones(3, requires_grad=True)

    def function(a):
        h = a * w
        h.register_hook(lambda g: shapes.append(tuple(g.shape)))
        return h

    assert jacrev(function)(wend.ones(3)).tolist() == np.eye(3).tolist()
    assert shapes == [(3,)] * 3


def test_variables_leave_nothing_behind():
    x = wend.ones(3, requires_grad=True)
    grad(f)(x)
    assert x.grad is None
    value = grad_and_value(f)(wend.ones(3))[1]
    assert not value.requires_grad


def test_gradient_penalty():
    """A gradient inside of a loss reaches the parameters of the module it closes over."""
    layer = wend.nn.Linear(3, 1)
    x = wend.randn(4, 3)
    penalty = vmap(grad(lambda a: layer(a).sum()))(x).pow(2).sum()
    penalty.backward()
    np.testing.assert_allclose(
        layer.weight.grad.numpy(), 8 * layer.weight.detach().numpy(), rtol=1e-5
    )


def test_functional_call_and_ensembles():
    models = [wend.nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = wend.func.stack_module_state(models)
    assert buffers == {}
    assert all(p.is_leaf and p.requires_grad for p in parameters.values())
    x = wend.randn(5, 3)

    def call(p, a):
        return wend.func.functional_call(models[0], p, (a,))

    got = vmap(call, (0, None))(parameters, x)
    want = wend.stack([m(x) for m in models])
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5)
    got.sum().backward()
    assert parameters["weight"].grad.shape == (4, 2, 3)
    assert models[0].weight.grad is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: grad(wend.sin)(wend.ones(3)), GraphError, "0-d tensor"),
        (lambda: grad(lambda a: 1.0)(wend.ones(3)), ArgumentTypeError, "must return a tensor"),
        (lambda: grad(f)(wend.ones(3).long()), GraphError, "floating-point"),
        (lambda: grad(f)(2.0), ArgumentTypeError, "must be tensors"),
        (lambda: grad(f, 1)(wend.ones(3)), ArgumentError, "argnums has 1"),
        (lambda: grad(f, (0, 0))(wend.ones(3)), ArgumentError, "once"),
        (lambda: grad(f, has_aux=True)(wend.ones(3)), ArgumentTypeError, "output, aux"),
        (lambda: vjp(wend.sin, wend.ones(3))[1](wend.ones(4)), GraphError, r"\(4,\)"),
        (lambda: vjp(wend.sin, wend.ones(3))[1]({"a": wend.ones(3)}), ArgumentError, "structure"),
        (lambda: jvp(wend.sin, wend.ones(3), wend.ones(3)), ArgumentTypeError, "tuples"),
        (lambda: jvp(wend.sin, (wend.ones(3),), (wend.ones(2),)), GraphError, r"\(2,\)"),
        (
            lambda: jvp(lambda a: wend.ones(2), (wend.ones(3),), (wend.ones(3),), strict=True),
            GraphError,
            "strict",
        ),
        (lambda: wend.func.stack_module_state([]), ArgumentError, "at least one"),
    ],
)
def test_bad_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_functionalize_changes_nothing():
    def function(a):
        return a.clone().mul_(2)

    assert wend.func.functionalize(function) is function
    assert wend.func.functionalize(function, remove="mutations_and_views") is function
    with pytest.raises(ArgumentError, match="remove is one of"):
        wend.func.functionalize(function, remove="everything")
    with pytest.raises(ArgumentTypeError, match="a function is needed"):
        wend.func.functionalize(3)


def test_an_outer_tensor_has_no_gradient_per_example():
    w = wend.ones(3, requires_grad=True)
    with pytest.raises(GraphError, match="outside of the mapped function"):
        vmap(lambda a: wend.func.vjp(lambda b: b * w, a)[1](a)[0] + _pull(w, (a * w).sum()))(
            wend.ones(4, 3)
        )


def _pull(w, out):
    from wend._engine.transforms.pullback import gradients

    return gradients([out], [w], [wend.tensor(1.0)], False)[0]
