"""Optimizers against PyTorch's: trajectories, states, printing, state dicts both ways."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402

RNG = np.random.default_rng(0)
START = [RNG.normal(size=(3, 2)).astype(np.float32), RNG.normal(size=(2,)).astype(np.float32)]
TARGET = [RNG.normal(size=(3, 2)).astype(np.float32), RNG.normal(size=(2,)).astype(np.float32)]

SETTINGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("Adam", {"lr": 0.1, "foreach": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}),
    ("RMSprop", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "alpha": 0.7, "maximize": True}),
    ("Adagrad", {"lr": 0.1}),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
    ),
    ("Adafactor", {}),
    (
        "Adafactor",
        {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-6, 1e-2), "d": 1.5, "weight_decay": 0.1},
    ),
    ("Adafactor", {"lr": 0.1, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.1, "betas": (0.9, 0.8), "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "t0": 3, "lambd": 0.1, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.5, "etas": (0.3, 1.5), "step_sizes": (0.1, 0.7)}),
]
IDS = [f"{name} {settings}" for name, settings in SETTINGS]


class Problem:
    """Two parameters drawn towards targets, in either framework."""

    def __init__(self, t, name, settings):
        self.t = t
        self.parameters = [t.nn.Parameter(t.tensor(a.copy())) for a in START]
        self.targets = [t.tensor(a) for a in TARGET]
        self.optimizer = getattr(t.optim, name)(self.parameters, **settings)

    def loss(self):
        total = 0
        for p, target in zip(self.parameters, self.targets):
            total = total + ((p - target) ** 2).sum() + (p * p * p).sum() * 0.1
        return total

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()

    def values(self):
        return [p.detach().numpy().copy() for p in self.parameters]


def close(ours, theirs, what=""):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6, err_msg=what)


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_trajectory_and_state_equal_torchs(name, settings):
    ours, theirs = (Problem(t, name, settings) for t in (wend, torch))
    assert repr(ours.optimizer) == repr(theirs.optimizer)
    for i in range(12):
        ours.step()
        theirs.step()
        close(ours.values(), theirs.values(), f"step {i}")
    same_state(ours.optimizer.state_dict(), theirs.optimizer.state_dict())


def same_state(ours, theirs):
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["state"]) == list(theirs["state"])
    for place, entries in theirs["state"].items():
        mine = ours["state"][place]
        assert sorted(mine) == sorted(entries)
        for key, value in entries.items():
            if value is None:
                assert mine[key] is None
                continue
            np.testing.assert_allclose(
                np.asarray(mine[key]), np.asarray(value), rtol=2e-5, atol=1e-6, err_msg=key
            )


def translated(state, t):
    """A state dict with the tensors of the other framework."""
    if isinstance(state, (torch.Tensor, wend.Tensor)):
        return t.tensor(state.detach().numpy().copy())
    if isinstance(state, dict):
        return {key: translated(value, t) for key, value in state.items()}
    if isinstance(state, list):
        return [translated(value, t) for value in state]
    return state


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
@pytest.mark.parametrize("direction", ["torch to wend", "wend to torch"])
def test_state_dicts_load_both_ways(name, settings, direction):
    ours, theirs = (Problem(t, name, settings) for t in (wend, torch))
    source, target = (theirs, ours) if direction == "torch to wend" else (ours, theirs)
    for _ in range(4):
        source.step()
    target.optimizer.load_state_dict(translated(source.optimizer.state_dict(), target.t))
    for p, value in zip(target.parameters, source.values(), strict=True):
        p.data = target.t.tensor(value)
    for _ in range(4):
        source.step()
        target.step()
    close(target.values(), source.values())


MUON = [
    {},
    {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
    {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.0, "ns_coefficients": (2.0, -1.5, 0.5)},
]


@pytest.mark.parametrize("settings", MUON, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_muon_equals_torchs(settings, dtype):
    """Matrices of all proportions; the rounds run in bfloat16, rounded as PyTorch rounds."""
    rng = np.random.default_rng(1)
    shapes = [(3, 2), (8, 8), (4, 16), (1, 5), (16, 3)]
    starts, targets = ([rng.normal(size=s).astype(dtype) for s in shapes] for _ in range(2))
    found = []
    for t in (wend, torch):
        parameters = [t.nn.Parameter(t.tensor(a.copy())) for a in starts]
        optimizer = t.optim.Muon(parameters, **settings)
        for _ in range(12):
            optimizer.zero_grad()
            sum(
                ((p - t.tensor(target)) ** 2).sum() + (p**3).sum() * 0.1
                for p, target in zip(parameters, targets, strict=True)
            ).backward()
            optimizer.step()
        found.append(([p.detach().numpy() for p in parameters], optimizer))
    (ours, mine), (theirs, its) = found
    assert repr(mine) == repr(its)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
    same_state(mine.state_dict(), its.state_dict())


@pytest.mark.parametrize("shape", [(), (2, 3, 4), (1, 5), (3, 1)], ids=str)
def test_adafactor_keeps_means_of_the_last_two_dims(shape):
    rng = np.random.default_rng(2)
    start, target = rng.normal(size=shape), rng.normal(size=shape)
    found = []
    for t in (wend, torch):
        p = t.nn.Parameter(t.tensor(start))
        optimizer = t.optim.Adafactor([p], lr=0.1)
        for _ in range(8):
            optimizer.zero_grad()
            ((p - t.tensor(target)) ** 2).sum().backward()
            optimizer.step()
        found.append((p.detach().numpy(), optimizer.state_dict()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    same_state(found[0][1], found[1][1])


@pytest.mark.parametrize(
    ("name", "settings", "shape"),
    [
        ("Adafactor", {"lr": -1.0}, (2, 2)),
        ("Adafactor", {"beta2_decay": 0.1}, (2, 2)),
        ("Adafactor", {"eps": (-1.0, 1e-3)}, (2, 2)),
        ("Adafactor", {"eps": (None, -1.0)}, (2, 2)),
        ("Adafactor", {"d": 0.5}, (2, 2)),
        ("Adafactor", {"weight_decay": -1.0}, (2, 2)),
        ("Muon", {}, (2,)),
        ("Muon", {"momentum": -1.0}, (2, 2)),
        ("Muon", {"adjust_lr_fn": "none"}, (2, 2)),
        ("SparseAdam", {"lr": 0.0}, (2, 2)),
        ("SparseAdam", {"betas": (0.9, 1.0)}, (2, 2)),
    ],
    ids=str,
)
def test_settings_out_of_range_raise_as_in_torch(name, settings, shape):
    messages = []
    for t in (wend, torch):
        with pytest.raises(ValueError) as raised:
            getattr(t.optim, name)([t.nn.Parameter(t.ones(shape))], **settings)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_sparse_adam_names_adam_for_dense_gradients():
    for t in (wend, torch):
        layer = t.nn.Embedding(4, 2)
        optimizer = t.optim.SparseAdam(layer.parameters())
        layer(t.tensor([1, 2])).sum().backward()
        with pytest.raises(
            RuntimeError, match="does not support dense gradients, please consider Adam instead"
        ):
            optimizer.step()


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


LBFGS = [
    {"lr": 0.1, "max_iter": 5},
    {"lr": 1, "max_iter": 10, "line_search_fn": "strong_wolfe"},
    {"lr": 0.5, "max_iter": 8, "history_size": 2, "line_search_fn": "strong_wolfe"},
    {"max_iter": 4, "max_eval": 3, "tolerance_grad": 1e-3},
]


@pytest.mark.parametrize("settings", LBFGS, ids=str)
def test_lbfgs_equals_torchs(settings):
    paths = []
    for t in (wend, torch):
        x = t.tensor([-0.5, 0.7], dtype=t.float64, requires_grad=True)
        optimizer = t.optim.LBFGS([x], **settings)

        def closure(x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = rosenbrock(x)
            loss.backward()
            return loss

        path = []
        for _ in range(4):
            loss = optimizer.step(closure)
            path.append([float(loss), *x.tolist()])
        path.append([optimizer.state[x]["func_evals"], optimizer.state[x]["n_iter"]])
        paths.append(path)
    assert paths[0][-1] == paths[1][-1]
    np.testing.assert_allclose(paths[0][:-1], paths[1][:-1], rtol=1e-7, atol=1e-9)


def test_groups_have_settings_of_their_own():
    results = []
    for t in (wend, torch):
        a, b, c = (t.nn.Parameter(t.ones(2)) for _ in range(3))
        optimizer = t.optim.SGD(
            [{"params": [a], "lr": 0.5}, {"params": b, "momentum": 0.9}], lr=0.1
        )
        optimizer.add_param_group({"params": [c], "weight_decay": 1.0})
        for _ in range(3):
            optimizer.zero_grad()
            (a.sum() + 2 * b.sum() + 3 * c.sum()).backward()
            optimizer.step()
        results.append([x.tolist() for x in (a, b, c)] + [repr(optimizer)])
    np.testing.assert_allclose(results[0][:3], results[1][:3], rtol=1e-6)
    assert results[0][3] == results[1][3]


def test_parameters_without_gradients_are_left_alone():
    for t in (wend, torch):
        a, b = (t.nn.Parameter(t.ones(2)) for _ in range(2))
        optimizer = t.optim.Adam([a, b], lr=0.1, weight_decay=0.5)
        a.sum().backward()
        optimizer.step()
        assert b.tolist() == [1, 1]
        assert list(optimizer.state) == [a]


def test_deepcopy_and_named_parameters():
    for t in (wend, torch):
        module = t.nn.Linear(2, 1)
        optimizer = t.optim.SGD(module.named_parameters(), lr=0.1, momentum=0.9)
        assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
        module(t.ones(2)).sum().backward()
        optimizer.step()
        twin = copy.deepcopy(optimizer)
        assert twin.param_groups[0]["lr"] == 0.1
        assert twin.param_groups[0]["params"][0] is not module.weight


# Of PyTorch's state these numbers are float32, and what is computed of them in float64 shows it.
ROUNDED = [
    ("NAdam", {"lr": 0.1}, "mu_product"),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 3}, "eta"),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 3}, "mu"),
]


@pytest.mark.parametrize(("name", "settings", "number"), ROUNDED)
def test_numbers_of_the_state_are_rounded_as_torchs(name, settings, number):
    found = []
    for t in (wend, torch):
        p = t.nn.Parameter(t.tensor([1.0, -2.0], dtype=t.float64))
        optimizer = getattr(t.optim, name)([p], **settings)
        for _ in range(7):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        (state,) = optimizer.state_dict()["state"].values()
        found.append([*p.tolist(), float(state[number])])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-13)


@pytest.mark.parametrize(("name", "settings", "number"), ROUNDED)
def test_a_saved_state_goes_on_as_if_nothing_had_been(name, settings, number):
    def steps(p, optimizer):
        for _ in range(5):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()

    p = wend.nn.Parameter(wend.tensor([1.0, -2.0], dtype=wend.float64))
    optimizer = getattr(wend.optim, name)([p], **settings)
    steps(p, optimizer)
    twin = wend.nn.Parameter(p.detach().clone())
    resumed = getattr(wend.optim, name)([twin], **settings)
    resumed.load_state_dict(optimizer.state_dict())
    steps(p, optimizer)
    steps(twin, resumed)
    assert twin.tolist() == p.tolist()


def test_counters_have_the_default_dtype_of_64_bits():
    for t in (wend, torch):
        before = t.get_default_dtype()
        try:
            t.set_default_dtype(t.float64)
            p = t.nn.Parameter(t.tensor([1.0, -2.0]))
            optimizer = t.optim.NAdam([p], lr=0.1)
            p.sum().backward()
            optimizer.step()
            (state,) = optimizer.state_dict()["state"].values()
        finally:
            t.set_default_dtype(before)
        assert state["step"].dtype is state["mu_product"].dtype is t.float64
        # 0.9 (1 - 0.96^0.004 / 2), not rounded to 32 bits
        assert float(state["mu_product"]) == pytest.approx(0.9 * (1 - 0.5 * 0.96**0.004), rel=1e-15)


@pytest.mark.parametrize("most", [2, 5, 8])
def test_lbfgs_counts_evaluations_of_the_line_search_as_torch_does(most):
    def run(t):
        rng = np.random.default_rng(most)
        w = t.tensor(rng.normal(size=(2, 3)) * 3, dtype=t.float64, requires_grad=True)
        a = t.tensor(rng.normal(size=(4, 3)), dtype=t.float64)
        optimizer = t.optim.LBFGS(
            [w], max_iter=6, max_eval=most, history_size=4, line_search_fn="strong_wolfe"
        )
        calls = []

        def closure():
            calls.append(1)
            optimizer.zero_grad()
            loss = t.sin(a @ w.T * 3).sum() + (w**4).sum() * 0.1
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(4)]
        return losses, w.detach().numpy(), len(calls)

    (losses, w, calls), (expected, v, theirs) = run(wend), run(torch)
    assert calls == theirs
    np.testing.assert_allclose(losses, expected, rtol=1e-7)
    np.testing.assert_allclose(w, v, rtol=1e-7)


@pytest.mark.parametrize("failing", [8, 9, 14])
def test_lbfgs_goes_on_as_torch_does_after_a_closure_that_raised(failing):
    def run(t):
        w = t.tensor(np.linspace(-1, 1, 6).reshape(2, 3), dtype=t.float64, requires_grad=True)
        a = t.tensor(np.arange(12.0).reshape(4, 3) / 7 + np.eye(4, 3), dtype=t.float64)
        optimizer = t.optim.LBFGS([w], lr=0.5, max_iter=5, history_size=4)
        calls = []

        def closure():
            calls.append(1)
            if len(calls) == failing:
                raise KeyError("stop")
            optimizer.zero_grad()
            loss = ((a @ w.T - 1) ** 2).sum() + (w**4).sum()
            loss.backward()
            return loss

        for _ in range(6):
            try:
                optimizer.step(closure)
            except KeyError:
                pass
        return w.detach().numpy(), optimizer.state[w]["n_iter"], optimizer.state[w]["func_evals"]

    (w, steps, calls), (v, torchs_steps, torchs_calls) = run(wend), run(torch)
    np.testing.assert_allclose(w, v, rtol=1e-10)
    assert (steps, calls) == (torchs_steps, torchs_calls)


# -- optimizers of libraries -----------------------------------------------------------------------


def _counting(package, step):
    """An optimizer of a library, whose state has a step: a tensor or an int."""

    class Counting(package.optim.Optimizer):
        def __init__(self, params, lr=0.5):
            super().__init__(params, {"lr": lr})

        @package.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state.setdefault("step", step(package))
                    state["step"] += 1
                    p.sub_(p.grad, alpha=group["lr"] / int(state["step"]))

    return Counting


@pytest.mark.parametrize(
    "step", [lambda t: 0, lambda t: t.tensor(0.0), lambda t: t.tensor(0)], ids=["int", "f", "i"]
)
def test_a_step_of_any_kind_is_kept(step):
    found = []
    for package in (wend, torch):
        p = package.ones(2, dtype=package.float64, requires_grad=True)
        first, second = (_counting(package, step)([p]) for _ in range(2))
        for optimizer in (first, second, second):
            p.grad = package.ones(2, dtype=package.float64)
            optimizer.step()
            if optimizer is first:
                second.load_state_dict(first.state_dict())
        kept = second.state[p]["step"]
        kind = str(kept.dtype).split(".")[-1] if hasattr(kept, "dtype") else type(kept).__name__
        found.append((kind, int(kept), p.tolist()))
    assert found[0] == found[1]


def test_a_wrapper_need_not_call_init():
    """As wrappers of libraries do, which have the groups and the state of another optimizer."""

    def call(package):
        class Wrapper(package.optim.Optimizer):
            def __init__(self, inner):
                self._optimizer_step_pre_hooks = {}
                self._optimizer_step_post_hooks = {}
                self.inner, self.param_groups = inner, inner.param_groups
                self.defaults, self.state = inner.defaults, inner.state

            def step(self, closure=None):
                return self.inner.step(closure)

        p = package.ones(3, requires_grad=True)
        wrapper = Wrapper(package.optim.SGD([p], lr=0.25, momentum=0.5))
        for _ in range(3):
            wrapper.zero_grad()
            (p * p).sum().backward()
            wrapper.step()
        return p.tolist()

    np.testing.assert_allclose(call(wend), call(torch), rtol=1e-6)
