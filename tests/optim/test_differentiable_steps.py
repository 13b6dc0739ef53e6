"""Gradients through steps of optimizers (differentiable=True), against PyTorch's.

Parameters are clones, as PyTorch wants them; gradients go to the parameters, the gradients, the
states and the settings before the step.
"""

import numpy as np
import pytest

import wend
from wend.nn import functional

RNG = np.random.default_rng(6)
START, GRADIENT = RNG.normal(size=5), RNG.normal(size=5)
SIGNED = RNG.normal(size=5)
#: Squares are above those of the means, so that estimates of variances are above zero.
POSITIVE = {"exp_avg_sq", "max_exp_avg_sq", "sum", "square_avg", "acc_delta", "exp_inf"}
POSITIVE |= {"step_size"}

#: Name, settings, names of tensors in the state before, numbers in the state before.
# fmt: off
CASES = [
    ("SGD", {"lr": 0.1}, (), {}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}, (), {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}, (), {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.2}, (), {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}, ("momentum_buffer",), {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "foreach": True}, ("momentum_buffer",), {}),
    ("Adam", {"lr": 0.1}, (), {}),
    ("Adam", {"lr": 0.1, "maximize": True}, ("exp_avg", "exp_avg_sq"), {"step": 10.0}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1},
     ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), {"step": 10.0}),
    ("AdamW", {"lr": 0.1}, (), {}),
    ("AdamW", {"lr": 0.1, "amsgrad": True}, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
     {"step": 10.0}),
    ("RMSprop", {"lr": 0.1}, (), {}),
    ("RMSprop", {"lr": 0.1, "centered": True, "momentum": 0.5, "weight_decay": 0.1},
     ("square_avg", "grad_avg", "momentum_buffer"), {"step": 3.0}),
    ("RMSprop", {"lr": 0.1, "maximize": True}, ("square_avg",), {"step": 3.0}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}, (), {}),
    ("Adagrad", {"lr": 0.1, "maximize": True}, ("sum",), {"step": 5.0}),
    ("Adadelta", {"lr": 0.5}, (), {}),
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1, "maximize": True}, ("square_avg", "acc_delta"),
     {"step": 4.0}),
    ("Adamax", {"lr": 0.1}, (), {}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}, ("exp_avg", "exp_inf"),
     {"step": 4.0}),
    ("NAdam", {"lr": 0.1}, (), {}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1}, ("exp_avg", "exp_avg_sq"),
     {"step": 4.0, "mu_product": 0.5}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
     ("exp_avg", "exp_avg_sq"), {"step": 4.0, "mu_product": 0.5}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}, (), {}),
    ("RAdam", {"lr": 0.1, "maximize": True}, ("exp_avg", "exp_avg_sq"), {"step": 20.0}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
     ("exp_avg", "exp_avg_sq"), {"step": 20.0}),
    ("ASGD", {"lr": 0.1, "weight_decay": 0.1}, (), {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 100, "maximize": True}, ("ax",),
     {"step": 5.0, "eta": 0.2, "mu": 1.0}),
    ("Rprop", {"lr": 0.1}, (), {}),
    ("Rprop", {"lr": 0.1, "maximize": True}, ("prev", "step_size"), {"step": 3.0}),
]
# fmt: on
IDS = [f"{name} {settings} {'begun' if states else 'fresh'}" for name, settings, states, _ in CASES]
NAMES = sorted({name for name, *_ in CASES})


class Program:
    """Steps of a framework from leaves, whose gradients are asked for."""

    def __init__(self, t, dtype="float64"):
        self.t = t
        self.dtype = getattr(t, dtype)
        self.leaves = []

    def leaf(self, array):
        x = self.t.tensor(np.asarray(array), dtype=self.dtype, requires_grad=True)
        self.leaves.append(x)
        return x

    def state(self, names, numbers):
        """A state before the step: tensors with a history, numbers as PyTorch keeps them."""
        tensors = {}
        for i, name in enumerate(names):
            array = 3 + np.abs(np.roll(SIGNED, i)) if name in POSITIVE else np.roll(SIGNED, i)
            tensors[name] = self.leaf(array).clone()
        return tensors | {key: self.t.tensor(n, dtype=self.dtype) for key, n in numbers.items()}

    def take(self, name, settings, states=(), numbers=None, steps=1, tensors=(), gradient=GRADIENT):
        """Take steps; returns what they made, and all gradients of a weighted sum of that.

        tensors: names of settings that are leaves, too
        """
        p = self.leaf(START).clone()
        g = self.leaf(gradient)
        settings = dict(settings)
        for key in tensors:
            if key == "betas":
                settings[key] = tuple(self.leaf(b).clone() for b in (0.9, 0.99))
            else:
                settings[key] = self.leaf(settings.get(key, 0.1)).clone()
        optimizer = getattr(self.t.optim, name)([p], differentiable=True, **settings)
        optimizer.state[p].update(self.state(states, numbers or {}))
        for i in range(steps):
            p.grad = g * (i + 1)
            optimizer.step()
        kept = [x for x in optimizer.state[p].values() if getattr(x, "shape", ()) == p.shape]
        loss = (p * self.t.arange(1.0, 6.0, dtype=self.dtype)).sum()
        for i, x in enumerate(kept):
            loss = loss + (i + 2) * (x * x).sum()
        gradients = self.t.autograd.grad(loss, self.leaves, allow_unused=True)
        # PyTorch has zeros or None where a result is constant.
        filled = [self.t.zeros_like(x) if d is None else d for x, d in zip(self.leaves, gradients)]
        return [x.detach().numpy() for x in (p, *kept, *filled)]


def compare(*args, **kwargs):
    torch = pytest.importorskip("torch")
    found, wanted = (Program(t).take(*args, **kwargs) for t in (wend, torch))
    assert len(found) == len(wanted)
    for i, (f, w) in enumerate(zip(found, wanted)):
        # PyTorch computes 1 - beta ** step in float32.
        np.testing.assert_allclose(f, w, rtol=2e-4, atol=1e-6, err_msg=f"result {i}")


@pytest.mark.parametrize("gradient", [GRADIENT, GRADIENT * [1, 0, 1, 0, 1]], ids=["all", "some 0"])
@pytest.mark.parametrize(("name", "settings", "states", "numbers"), CASES, ids=IDS)
def test_gradients_through_a_step_are_torchs(name, settings, states, numbers, gradient):
    compare(name, settings, states, numbers, gradient=gradient)


@pytest.mark.parametrize(("name", "settings", "states", "numbers"), CASES, ids=IDS)
def test_gradients_through_three_steps_are_torchs(name, settings, states, numbers):
    torch = pytest.importorskip("torch")
    try:
        Program(torch).take(name, settings, states, numbers, steps=3)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        pytest.skip("PyTorch writes to states that its gradients need; see the next test")
    compare(name, settings, states, numbers, steps=3)


#: Which settings may be tensors with gradients in PyTorch.
HYPER = [
    ("SGD", {"lr": 0.1}, (), ("lr",)),
    ("SGD", {"lr": 0.1, "momentum": 0.9}, ("momentum_buffer",), ("lr", "weight_decay")),
    ("Adam", {"lr": 0.1}, ("exp_avg", "exp_avg_sq"), ("lr",)),
    ("Adam", {"lr": 0.1}, ("exp_avg", "exp_avg_sq"), ("betas",)),
    ("Adam", {"lr": 0.1, "amsgrad": True}, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
     ("lr", "weight_decay", "betas")),
    ("AdamW", {"lr": 0.1}, ("exp_avg", "exp_avg_sq"), ("lr", "weight_decay", "betas")),
    ("NAdam", {"lr": 0.1}, ("exp_avg", "exp_avg_sq"), ("lr",)),
    ("RAdam", {"lr": 0.1}, ("exp_avg", "exp_avg_sq"), ("lr",)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "states", "tensors"), HYPER)
def test_gradients_by_settings_are_torchs(name, settings, states, tensors):
    numbers = {"SGD": {}, "NAdam": {"step": 9.0, "mu_product": 0.4}}.get(name, {"step": 9.0})
    if "weight_decay" in tensors and name != "AdamW":
        # PyTorch adds the decay to the gradient in place, which a leaf does not allow.
        settings = {**settings, "maximize": True}
    compare(name, settings, states, numbers, tensors=tensors)


#: The first buffer of SGD has no history, as in PyTorch.
SMOOTH = [case for case in CASES if case[0] != "SGD" or "momentum" not in case[1] or case[2]]


@pytest.mark.parametrize(("name", "settings", "states", "numbers"), SMOOTH)
def test_gradients_are_those_of_differences(name, settings, states, numbers):
    """Two steps, by the learning rate too for every method that takes the rate as it is."""
    by_rate = name not in ("ASGD", "Rprop")
    program = Program(wend)
    tensors = program.state(states, {})
    leaves = [program.leaf(START), program.leaf(GRADIENT), program.leaf(settings["lr"])]
    leaves = [*leaves[: 2 + by_rate], *(tensors[key].detach().requires_grad_() for key in states)]

    def stepped(start, slope, *rest):
        p = start.clone()
        rate = {"lr": rest[0]} if by_rate else {}
        optimizer = getattr(wend.optim, name)([p], differentiable=True, **{**settings, **rate})
        begun = {key: x.clone() for key, x in zip(states, rest[by_rate:])}
        optimizer.state[p].update(begun | numbers)
        for k in range(2):
            p.grad = slope * (k + 1)
            optimizer.step()
        return (p, *(x for x in optimizer.state[p].values() if getattr(x, "shape", ()) == p.shape))

    # A pass may be computed by NumPy first and by machine code then, which round in other orders.
    assert wend.autograd.gradcheck(stepped, leaves, atol=1e-5, nondet_tol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_complex_parameters_have_torchs_gradients(name):
    torch = pytest.importorskip("torch")

    def program(t):
        p, g = (t.tensor(a + 1j * np.roll(a, 1), requires_grad=True) for a in (START, GRADIENT))
        q = p.clone()
        q.grad = g
        optimizer = getattr(t.optim, name)([q], lr=0.1, differentiable=True)
        optimizer.step()
        found = t.autograd.grad((q.abs() ** 2).sum(), (p, g), allow_unused=True)
        return [t.zeros_like(p) if d is None else d for d in found]

    for f, w in zip(program(wend), program(torch), strict=True):
        np.testing.assert_allclose(f.numpy(), w.numpy(), rtol=2e-4, atol=1e-6)


def test_an_inner_loop_learns_its_learning_rate():
    """A model is trained for three steps, and the loss behind them by weights and rate."""

    def program(t):
        w0 = t.tensor([[0.5, -0.3]], requires_grad=True)
        rate = t.tensor(0.05, requires_grad=True)
        x, y = t.tensor([[1.0, 2.0], [3.0, -1.0]]), t.tensor([[1.0], [2.0]])
        weight = w0.clone()
        optimizer = t.optim.SGD([weight], lr=rate.clone(), differentiable=True)
        for _ in range(3):
            loss = t.nn.functional.mse_loss(t.nn.functional.linear(x, weight.clone()), y)
            (weight.grad,) = t.autograd.grad(loss, weight, create_graph=True)
            optimizer.step()
        t.nn.functional.mse_loss(t.nn.functional.linear(x, weight), y).backward()
        return w0.grad.numpy(), rate.grad.numpy()

    def by_hand():
        w = wend.tensor([[0.5, -0.3]], requires_grad=True)
        rate = wend.tensor(0.05, requires_grad=True)
        x, y = wend.tensor([[1.0, 2.0], [3.0, -1.0]]), wend.tensor([[1.0], [2.0]])
        weight = w
        for _ in range(3):
            loss = functional.mse_loss(functional.linear(x, weight), y)
            weight = weight - rate * wend.autograd.grad(loss, weight, create_graph=True)[0]
        functional.mse_loss(functional.linear(x, weight), y).backward()
        return w.grad.numpy(), rate.grad.numpy()

    results = [program(wend), by_hand()]
    torch = pytest.importorskip("torch")
    results.append(program(torch))
    for other in results[1:]:
        for f, w in zip(results[0], other):
            np.testing.assert_allclose(f, w, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_values_are_those_of_plain_steps(name):
    def values(differentiable):
        p = wend.tensor(START)
        if differentiable:
            p = p.requires_grad_().clone()
        optimizer = getattr(wend.optim, name)([p], lr=0.1, differentiable=differentiable)
        for i in range(4):
            p.grad = wend.tensor(GRADIENT) * (i + 1)
            optimizer.step()
        return p.detach().numpy()

    np.testing.assert_allclose(values(True), values(False), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_recorded_inside_of_no_grad_too(name):
    p = wend.tensor(START, requires_grad=True).clone()
    p.grad = wend.tensor(GRADIENT)
    optimizer = getattr(wend.optim, name)([p], lr=0.1, differentiable=True)
    with wend.no_grad():
        optimizer.step()
        assert not wend.is_grad_enabled()
    assert p.requires_grad
    assert not p.is_leaf


@pytest.mark.parametrize("name", NAMES)
def test_a_leaf_with_gradients_is_refused(name):
    p = wend.nn.Parameter(wend.tensor(START))
    optimizer = getattr(wend.optim, name)([p], lr=0.1, differentiable=True)
    p.grad = wend.tensor(GRADIENT)
    with pytest.raises(RuntimeError, match=rf"^{name}: a leaf Variable that requires grad"):
        optimizer.step()
    assert p.tolist() == START.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_foreach_and_fused_are_refused_where_torch_does(name):
    def outcome(t, settings):
        p = t.tensor(START, requires_grad=True).clone()
        p.grad = t.tensor(GRADIENT)
        try:
            getattr(t.optim, name)([p], lr=0.1, **settings).step()
        except (RuntimeError, AssertionError, TypeError) as error:
            kinds = (RuntimeError, AssertionError, TypeError)
            return next(kind for kind in kinds if isinstance(error, kind))
        return None

    torch = pytest.importorskip("torch")
    for settings in (
        {"differentiable": True},
        {"differentiable": True, "foreach": True},
        {"differentiable": True, "fused": True},
    ):
        assert outcome(wend, settings) is outcome(torch, settings), settings


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adagrad", "SGD"])
def test_fused_names_the_setting_in_the_way(name):
    make, p = getattr(wend.optim, name), wend.nn.Parameter(wend.ones(2))
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        make([p], lr=0.1, differentiable=True, fused=True)
    with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
        make([p], lr=0.1, foreach=True, fused=True)


def test_plain_optimizers_keep_to_leaves():
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        wend.optim.Adam([wend.ones(2, requires_grad=True).clone()])
