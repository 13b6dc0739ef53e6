"""`autograd.functional` with strict, create_graph, vectorize and strategies, against PyTorch.

Functions whose results, or derivatives, depend on all inputs, on some or on none; and arguments
that do not fit.
"""

import itertools

import pytest
from agreement import check_outcomes

import wend

torch = pytest.importorskip("torch")

A, B = [1.0, -2.0, 3.0], [0.5, 2.0, 1.0]

#: Functions of a vector, and of two.
FUNCTIONS = {
    "constant": lambda t: lambda x: t.ones(2),
    "partly constant": lambda t: lambda x: (x * x, t.ones(2)),
    "linear": lambda t: lambda x: 2 * x,
    "squares": lambda t: lambda x: x * x,
    "sum": lambda t: lambda x: x.sum(),
    "cubes": lambda t: lambda x: (x**3).sum(),
    "outer": lambda t: lambda x: t.outer(x, x),
    "identity": lambda t: lambda x: x,
    "cut off": lambda t: lambda x: x.detach().sum(),
    "another leaf": lambda t: lambda x: x.detach().clone().requires_grad_().sum(),
    "integer": lambda t: lambda x: x.argmax(),
    "number": lambda t: lambda x: 3.0,
    "tensor and number": lambda t: lambda x: (x, 3.0),
    "list": lambda t: lambda x: [x * x, x],
    "tuple of a number": lambda t: lambda x: ((x**3).sum(),),
    "two numbers": lambda t: lambda x: ((x**3).sum(), x.sum()),
    "vector of size 1": lambda t: lambda x: (x**3).sum().view(1),
    "written": lambda t: lambda x: x.clone().mul_(x).sum(),
}
FUNCTIONS_OF_TWO = {
    "both": lambda t: lambda x, y: (x * x * y).sum(),
    "the first": lambda t: lambda x, y: (x * x).sum(),
    "linear in the second": lambda t: lambda x, y: (x * x).sum() + y.sum(),
    "product": lambda t: lambda x, y: (x * y).sum(),
    "vector": lambda t: lambda x, y: x * y,
    "tuple": lambda t: lambda x, y: (x * y, x.sum()),
    "neither": lambda t: lambda x, y: t.ones(1),
    "apart": lambda t: lambda x, y: (x * 2, y * 3),
}
SETTINGS = [
    {"strict": strict, "create_graph": graph}
    for strict, graph in itertools.product((False, True), repeat=2)
]


def inputs(t, two, requires_grad):
    x = t.tensor(A, requires_grad=requires_grad)
    return (x, t.tensor(B)) if two else x


def shape(result):
    """The nesting of a result, and which of its tensors require grad."""
    if isinstance(result, (tuple, list)):
        return [type(result).__name__, *map(shape, result)]
    return [result.requires_grad]


def cases():
    for name, f in FUNCTIONS.items():
        yield pytest.param(f, False, id=name)
    for name, f in FUNCTIONS_OF_TWO.items():
        yield pytest.param(f, True, id=f"of two: {name}")


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("function", "two"), cases())
@pytest.mark.parametrize("name", ["jacobian", "hessian"])
def test_matrices(name, function, two, requires_grad):
    for settings in SETTINGS:

        def program(t, settings=settings):
            f = getattr(t.autograd.functional, name)
            found = f(function(t), inputs(t, two, requires_grad), **settings)
            return [found, shape(found)]

        check_outcomes(program, wend, torch)


@pytest.mark.parametrize(("function", "two"), cases())
@pytest.mark.parametrize("name", ["jacobian", "hessian"])
def test_vectorized_matrices(name, function, two):
    def program(t):
        f = getattr(t.autograd.functional, name)
        return f(function(t), inputs(t, two, False), vectorize=True)

    check_outcomes(program, wend, torch)


VECTORS = {
    "none": lambda t, two: None,
    "as the inputs": lambda t, two: (t.ones(3) * 2, t.ones(3)) if two else t.ones(3) * 2,
    "0-d": lambda t, two: t.ones(()),
    "too long": lambda t, two: t.ones(4),
    "a pair": lambda t, two: (t.ones(3), t.ones(())),
}


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize(("function", "two"), cases())
@pytest.mark.parametrize("name", ["vjp", "jvp", "hvp", "vhp"])
def test_products(name, function, two, vector):
    for settings in SETTINGS:

        def program(t, settings=settings):
            f = getattr(t.autograd.functional, name)
            v = VECTORS[vector](t, two)
            found = f(function(t), inputs(t, two, True), v, **settings)
            return [found, shape(found)]

        check_outcomes(program, wend, torch)


@pytest.mark.parametrize("strategy", ["forward-mode", "reverse-mode"])
@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize(("name", "key"), [
    ("jacobian", "strategy"), ("hessian", "outer_jacobian_strategy"),
])  # fmt: skip
def test_strategies(name, key, vectorize, strategy):
    for settings in SETTINGS:

        def program(t, settings=settings):
            f = getattr(t.autograd.functional, name)
            more = {**settings, key: strategy, "vectorize": vectorize}
            return f(lambda x: (x**3).sum(), t.tensor(A), **more)

        check_outcomes(program, wend, torch)


@pytest.mark.parametrize("settings", [
    {"strict": True, "vectorize": True},
    {"strict": True, "vectorize": True, "strategy": "forward-mode"},
    {"create_graph": True, "vectorize": True, "strategy": "forward-mode"},
    {"strategy": "forward-mode"},
])  # fmt: skip
def test_settings_that_do_not_go_together_are_named(settings):
    words = "are not supported together|is to be used with vectorize=True"
    with pytest.raises((RuntimeError, NotImplementedError), match=words):
        wend.autograd.functional.jacobian(lambda x: x * x, wend.tensor(A), **settings)


@pytest.mark.parametrize("x", [3.0, None, [wend.ones(2)], {"a": wend.ones(2)}])
@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "hvp", "vhp"])
def test_inputs_are_tensors_or_tuples(name, x):
    with pytest.raises(TypeError, match="must be a Tensor or a tuple of Tensors"):
        getattr(wend.autograd.functional, name)(lambda x: x.sum(), x)


def test_the_vector_is_looked_at_before_the_call():
    calls = []
    with pytest.raises(RuntimeError, match="wrong shape"):
        wend.autograd.functional.jvp(calls.append, wend.ones(3), wend.ones(4))
    assert calls == []
