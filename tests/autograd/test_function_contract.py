"""What `autograd.Function` asks of users' code, and hands to it, against PyTorch.

Gradients that are too many, too few or of another kind, marks of `ctx`, and arguments by name.
"""

import pytest
from agreement import check_outcomes, plain

import wend

torch = pytest.importorskip("torch")

VALUES = [1.0, 2.0, 3.0]


def leaf(t):
    return t.tensor(VALUES, requires_grad=True)


def function(t, forward, backward, **members):
    """A class of functions with these static methods."""
    methods = {"forward": forward, "backward": backward, **members}
    static = {name: staticmethod(method) for name, method in methods.items()}
    return type("Sample", (t.autograd.Function,), static)


#: What a backward of two arguments may return for the gradient g.
RETURNS = {
    "None": lambda g: None,
    "one": lambda g: g,
    "two": lambda g: (g, g),
    "two and None": lambda g: (g, g, None),
    "three": lambda g: (g, g, g),
    "none at all": lambda g: (),
    "list": lambda g: [g, g],
    "number": lambda g: (1.0, None),
    "array": lambda g: (g.detach().numpy(), None),
    "sum": lambda g: (g.sum(), None),
    "part": lambda g: (g[:2], None),
    "expanded": lambda g: (g.expand(2, 3), None),
    "float64": lambda g: (g.double(), None),
    "int64": lambda g: (g.long(), None),
    "complex": lambda g: (g * 1j, None),
}


@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize("second", ["leaf", "plain", "number"])
@pytest.mark.parametrize("through", ["leaves", "results"])
def test_gradients_that_backward_returns(through, second, returns):
    def program(t):
        f = function(t, lambda ctx, x, y: x * y, lambda ctx, g: RETURNS[returns](g))
        x = leaf(t)
        y = {"leaf": leaf, "plain": lambda t: t.ones(3), "number": lambda t: 3.0}[second](t)
        a = x * 2 if through == "results" else x
        f.apply(a, y).sum().backward()
        return [x.grad, y.grad if second == "leaf" else None]

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("used", ["both", "first", "second"])
@pytest.mark.parametrize("materialize", [None, True, False])
def test_gradients_of_results_that_are_not_used(materialize, used):
    def program(t):
        log = []

        def forward(ctx, x):
            if materialize is not None:
                ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        def backward(ctx, a, b):
            log.append([plain(a), plain(b)])
            return (0 if a is None else a * 2) + (0 if b is None else b * 3)

        x = leaf(t)
        a, b = function(t, forward, backward).apply(x)
        {"both": lambda: a + b, "first": lambda: a, "second": lambda: b}[used]().sum().backward()
        return [x.grad, log]

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("returned", ["input", "copy", "both"])
@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("place", ["leaf", "result", "view", "plain"])
def test_inputs_that_forward_changes(place, marked, returned):
    if place == "view" and marked and returned == "both":
        pytest.skip("PyTorch refuses a view among several results")

    def program(t):
        def forward(ctx, x):
            if marked:
                ctx.mark_dirty(x)
            x.mul_(3)
            return {"input": lambda: x, "copy": lambda: x * 1, "both": lambda: (x, x * 2)}[
                returned
            ]()

        x = leaf(t)
        base = x * 1
        a = {"leaf": x, "result": base, "view": base[:2], "plain": t.tensor(VALUES)}[place]
        version = a._version
        y = function(t, forward, lambda ctx, *g: g[0] * 3).apply(a)
        y = y[0] if isinstance(y, tuple) else y
        found = [y, y is a, y.requires_grad, a.requires_grad, a.is_leaf]
        if y.requires_grad:
            found.append(a._version - version)
            (y * y).sum().backward()
        return [*found, x.grad, base]

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("marked", ["first", "second", "both", "input"])
def test_results_without_gradients(marked):
    def program(t):
        def forward(ctx, x):
            a, b = x * 2, x * 3
            named = {"first": (a,), "second": (b,), "both": (a, b), "input": (x,)}
            ctx.mark_non_differentiable(*named[marked])
            return a, b

        log = []

        def backward(ctx, g, h):
            log.append([plain(g), plain(h)])
            return g * 2 + h * 3

        x = leaf(t)
        a, b = function(t, forward, backward).apply(x)
        live = [y for y in (a, b) if y.requires_grad]
        if live:
            sum(y.sum() for y in live).backward()
        return [a.requires_grad, b.requires_grad, a.is_leaf, b.is_leaf, x.grad, log]

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("sets_up", [False, True])
@pytest.mark.parametrize("needs", range(8))
def test_needs_input_grad(needs, sets_up):
    def program(t):
        log = []

        def backward(ctx, g):
            log.append(ctx.needs_input_grad)
            return g, g, None, g

        def setup(ctx, inputs, output):
            log.append([ctx.needs_input_grad, len(inputs), output.requires_grad])

        if sets_up:
            f = function(t, lambda x, y, k, z: x * y * z * k, backward, setup_context=setup)
        else:
            f = function(t, lambda ctx, x, y, k, z: x * y * z * k, backward)
        xs = [t.ones(3, requires_grad=bool(needs >> i & 1)) for i in range(3)]
        y = f.apply(xs[0], xs[1], 2.0, xs[2])
        if y.requires_grad:
            y.sum().backward()
        return [[x.grad for x in xs], [str(line) for line in log]]

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("again", [False, True])
def test_once_differentiable(again):
    def program(t):
        once = t.autograd.function.once_differentiable
        f = function(
            t,
            lambda ctx, x: (ctx.save_for_backward(x), x * x)[1],
            once(lambda ctx, g: 2 * ctx.saved_tensors[0] * g),
        )
        x = leaf(t)
        (g,) = t.autograd.grad(f.apply(x).sum(), x, create_graph=again)
        found = [g, g.requires_grad]
        if again:
            g.sum().backward()
        return found

    check_outcomes(program, wend, torch)


CALLS = {
    "by name": lambda f, x: f.apply(x, k=3.0),
    "all by name": lambda f, x: f.apply(k=3.0, x=x),
    "default": lambda f, x: f.apply(x),
    "tensor by name": lambda f, x: f.apply(x=x),
    "twice": lambda f, x: f.apply(x, x=x),
    "unknown": lambda f, x: f.apply(x, 3.0, q=1.0),
    "too many": lambda f, x: f.apply(x, 3.0, 1.0, 2.0),
    "none": lambda f, x: f.apply(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("sets_up", [False, True])
@pytest.mark.parametrize("gradients", [1, 2])
def test_arguments_by_name_and_defaults(call, sets_up, gradients):
    def program(t):
        log = []

        def backward(ctx, g):
            log.append(ctx.needs_input_grad)
            return (g * 5, None)[:gradients]

        def setup(ctx, inputs, output):
            log.append([len(inputs), ctx.needs_input_grad])

        def forward(ctx, x, k=2.0):
            return x * k

        def alone(x, k=2.0):
            return x * k

        f = (
            function(t, alone, backward, setup_context=setup)
            if sets_up
            else function(t, forward, backward)
        )
        x = leaf(t)
        y = CALLS[call](f, x)
        y.sum().backward()
        return [y, x.grad, [str(line) for line in log]]

    check_outcomes(program, wend, torch)


def test_vjp_is_another_name_of_backward():
    def program(t):
        class Doubled(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def vjp(ctx, g):
                return g * 2

        x = leaf(t)
        Doubled.apply(x).sum().backward()
        return x.grad

    check_outcomes(program, wend, torch)


def test_a_function_with_both_names_is_refused():
    f = function(wend, lambda ctx, x: x * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="'backward' and 'vjp' for a custom Function is not"):
        f.apply(leaf(wend)).sum().backward()


# -- grad and backward ---------------------------------------------------------------------------

GRADS = {
    "unused": lambda t, x, y: t.autograd.grad((x * 2).sum(), (x, y)),
    "unused allowed": lambda t, x, y: t.autograd.grad((x * 2).sum(), (x, y), allow_unused=True),
    "materialized": lambda t, x, y: t.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True),
    "materialized, not allowed": lambda t, x, y: t.autograd.grad(
        (x * 2).sum(), (x, y), materialize_grads=True, allow_unused=False
    ),
    "without grad": lambda t, x, y: t.autograd.grad((x * 2).sum(), (x, y.detach())),
    "twice the same": lambda t, x, y: t.autograd.grad((x * y).sum(), [x, x]),
    "not a number": lambda t, x, y: t.autograd.grad(x * y, x),
    "another shape": lambda t, x, y: t.autograd.grad((x * y).sum(), x, t.ones(2)),
    "batched": lambda t, x, y: t.autograd.grad(x * x, x, t.eye(3), is_grads_batched=True),
    "batched, materialized": lambda t, x, y: t.autograd.grad(
        x * x, (x, y), t.eye(3), is_grads_batched=True, materialize_grads=True
    ),
    "batched, unused": lambda t, x, y: t.autograd.grad(
        (x * x, x * 3), (x, y), (t.eye(3), t.eye(3)), is_grads_batched=True, allow_unused=True
    ),
    "batched, plain": lambda t, x, y: t.autograd.grad(
        x * x, x, t.ones(2, 2), is_grads_batched=True
    ),
    "of nothing": lambda t, x, y: t.autograd.grad([], []),
    "by itself": lambda t, x, y: t.autograd.grad(x, x, t.ones(3)),
}


@pytest.mark.parametrize("name", GRADS)
def test_grad(name):
    check_outcomes(lambda t: GRADS[name](t, leaf(t), leaf(t)), wend, torch)


INPUTS = {
    "leaf": lambda x, y, z: [x],
    "result": lambda x, y, z: [y],
    "both": lambda x, y, z: [x, y],
    "unused": lambda x, y, z: [z],
    "none": lambda x, y, z: [],
    "tensor": lambda x, y, z: x,
    "without grad": lambda x, y, z: [z.detach()],
    "twice the same": lambda x, y, z: [x, x],
    "number": lambda x, y, z: [3],
}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("name", INPUTS)
def test_backward_of_inputs(name):
    def program(t):
        x, z = leaf(t), leaf(t)
        y = x * 2
        (y * y).sum().backward(inputs=INPUTS[name](x, y, z))
        return [x.grad, y.grad, z.grad]

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("op", ["exp", "tanh", "sigmoid", "sqrt", "reciprocal", "relu", "square"])
def test_a_second_backward_needs_retain_graph(op):
    def program(t, retain):
        x = leaf(t)
        y = getattr(x, op)().sum()
        y.backward(retain_graph=retain)
        y.backward()
        return x.grad

    for retain in (False, True):
        check_outcomes(lambda t, retain=retain: program(t, retain), wend, torch)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        program(wend, False)


HOOKS = {
    "None": lambda g: None,
    "double": lambda g: g * 2,
    "sum": lambda g: g.sum(),
    "part": lambda g: g[:2],
    "expanded": lambda g: g.expand(2, 3),
    "float64": lambda g: g.double(),
    "number": lambda g: 3.0,
    "tuple": lambda g: (g,),
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("place", ["leaf", "result", "node", "before the node", "accumulated"])
def test_hooks_that_change_gradients(place, hook):
    def program(t):
        h, x = HOOKS[hook], leaf(t)
        y = x * 2

        def of_node(grads, *_):
            changed = h(grads[0])
            return None if changed is None else (changed, *grads[1:])

        if place == "leaf":
            x.register_hook(h)
        elif place == "result":
            y.register_hook(h)
        elif place == "node":
            y.grad_fn.register_hook(of_node)
        elif place == "accumulated":
            x.register_post_accumulate_grad_hook(lambda p: h(p.grad))
        else:
            y.grad_fn.register_prehook(of_node)
        (y * y).sum().backward()
        return x.grad

    check_outcomes(program, wend, torch)
