"""Optimizers on complex parameters against PyTorch's: real and imaginary parts are stepped alike.

Whole runs of two complex parameters beside a real one, with their states and state dicts.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402
from wend._engine.base import config  # noqa: E402

RNG = np.random.default_rng(3)


def drawn(shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


START = [drawn((3, 2)), drawn(()), RNG.normal(size=2)]
TARGET = [drawn((3, 2)), drawn(()), RNG.normal(size=2)]

PLAIN = {
    "SGD": [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.1}],
    "Adam": [{}, {"amsgrad": True}, {"weight_decay": 0.1}, {"decoupled_weight_decay": True}],
    "AdamW": [{}, {"amsgrad": True, "weight_decay": 0.3}],
    "RMSprop": [{}, {"centered": True}, {"momentum": 0.5}, {"centered": True, "momentum": 0.5}],
    "Adagrad": [{}, {"initial_accumulator_value": 0.5, "lr_decay": 0.1}],
    "Adadelta": [{}, {"rho": 0.8, "weight_decay": 0.1}],
    "Adamax": [{}, {"weight_decay": 0.1}],
    "NAdam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{"betas": (0.9, 0.8)}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "ASGD": [{"lambd": 0.1, "t0": 3}, {"weight_decay": 0.1}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (0.1, 0.7)}],
}
SETTINGS = [
    (name, {"lr": 0.1, **settings, **more})
    for name, variants in PLAIN.items()
    for settings in variants
    for more in ({}, *([{"maximize": True}, {"foreach": True}] if settings is variants[-1] else []))
]
IDS = [f"{name} {settings}" for name, settings in SETTINGS]


class Problem:
    """Parameters drawn towards targets, in either framework."""

    def __init__(self, t, name, settings, single=False):
        self.t = t
        narrow = {"c": np.complex64, "f": np.float32}
        arrays = [
            [a.astype(narrow[np.asarray(a).dtype.kind]) if single else np.asarray(a) for a in given]
            for given in (START, TARGET)
        ]
        self.parameters = [t.nn.Parameter(t.tensor(a)) for a in arrays[0]]
        self.targets = [t.tensor(a) for a in arrays[1]]
        self.optimizer = getattr(t.optim, name)(self.parameters, **settings)

    def loss(self):
        self.optimizer.zero_grad()
        total = sum(
            (p - target).abs().square().sum() + (p * p * p).abs().sum() * 0.1
            for p, target in zip(self.parameters, self.targets, strict=True)
        )
        total.backward()
        return total

    def step(self):
        if type(self.optimizer).__name__ == "LBFGS":
            self.optimizer.step(self.loss)
        else:
            self.loss()
            self.optimizer.step()

    def values(self):
        return [p.detach().numpy().copy() for p in self.parameters]


def close(ours, theirs, tolerance, what=""):
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def same_state(ours, theirs, tolerance):
    assert list(ours["state"]) == list(theirs["state"])
    for place, entries in theirs["state"].items():
        mine = ours["state"][place]
        assert sorted(mine) == sorted(entries)
        for key, value in entries.items():
            if isinstance(value, torch.Tensor):
                assert mine[key].numpy().dtype == value.numpy().dtype, key
                np.testing.assert_allclose(
                    mine[key].numpy(), value.numpy(), rtol=tolerance, atol=tolerance, err_msg=key
                )


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=IDS)
def test_runs_and_states_equal_torchs(name, settings):
    ours, theirs = (Problem(t, name, settings) for t in (wend, torch))
    # PyTorch's ASGD of many tensors computes with rates rounded to float32.
    tolerance = 1e-6 if name == "ASGD" and "foreach" in settings else 1e-9
    for i in range(8):
        ours.step()
        theirs.step()
        close(ours.values(), theirs.values(), tolerance, f"step {i}")
    same_state(ours.optimizer.state_dict(), theirs.optimizer.state_dict(), tolerance)


@pytest.mark.parametrize("name", PLAIN)
def test_numbers_of_single_precision(name):
    ours, theirs = (Problem(t, name, PLAIN[name][-1], single=True) for t in (wend, torch))
    for _ in range(8):
        ours.step()
        theirs.step()
    close(ours.values(), theirs.values(), 5e-5)


@pytest.mark.parametrize("name", PLAIN)
def test_a_complex_parameter_is_stepped_as_its_real_pairs(name):
    """The rule itself, without PyTorch: both ways give the same bits.

    Machine code may fuse a product and a sum of one way, and round once.
    """
    found = []
    for real in (False, True):
        start = wend.tensor(START[0])
        p = wend.nn.Parameter(wend.view_as_real(start).clone() if real else start.clone())
        optimizer = getattr(wend.optim, name)([p], **PLAIN[name][-1])
        with config.override(compile=False):
            for _ in range(6):
                optimizer.zero_grad()
                z = wend.view_as_complex(p) if real else p
                ((z - 1j).abs() ** 3).sum().backward()
                optimizer.step()
            found.append((wend.view_as_complex(p) if real else p).detach().tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("direction", ["torch to wend", "wend to torch"])
def test_state_dicts_load_both_ways(name, direction):
    ours, theirs = (Problem(t, name, PLAIN[name][-1]) for t in (wend, torch))
    source, target = (theirs, ours) if direction == "torch to wend" else (ours, theirs)
    for _ in range(4):
        source.step()
    target.optimizer.load_state_dict(translated(source.optimizer.state_dict(), target.t))
    for p, value in zip(target.parameters, source.values(), strict=True):
        p.data = target.t.tensor(value)
    for _ in range(4):
        source.step()
        target.step()
    close(target.values(), source.values(), 1e-6)


def translated(state, t):
    """A state dict with the tensors of the other framework."""
    if isinstance(state, (torch.Tensor, wend.Tensor)):
        return t.tensor(state.detach().numpy().copy())
    if isinstance(state, dict):
        return {key: translated(value, t) for key, value in state.items()}
    return [translated(value, t) for value in state] if isinstance(state, list) else state


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_quasi_newton_steps_equal_torchs(search):
    settings = {"lr": 0.2 if search is None else 1, "line_search_fn": search, "max_iter": 6}
    ours, theirs = (Problem(t, "LBFGS", settings) for t in (wend, torch))
    for _ in range(3):
        ours.step()
        theirs.step()
        close(ours.values(), theirs.values(), 1e-8)


@pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])
@pytest.mark.parametrize(
    ("name", "shape", "error"),
    [
        ("Adafactor", (2,), RuntimeError),
        ("Muon", (2, 2), RuntimeError),
        ("SparseAdam", (2,), ValueError),
    ],
)
def test_who_refuses_complex_parameters(t, name, shape, error):
    with pytest.raises(error, match="does not support complex parameters"):
        p = t.nn.Parameter(t.zeros(shape, dtype=t.complex64))
        optimizer = getattr(t.optim, name)([p])
        p.grad = t.ones_like(p)
        optimizer.step()


def test_averages_and_clipping_of_complex_parameters():
    found = []
    for t in (wend, torch):
        module = t.nn.Module()
        module.p = t.nn.Parameter(t.tensor(START[0]))
        averages = [
            t.optim.swa_utils.AveragedModel(module, **more)
            for more in (
                {},
                {"multi_avg_fn": t.optim.swa_utils.get_ema_multi_avg_fn(0.9)},
                {"multi_avg_fn": t.optim.swa_utils.get_swa_multi_avg_fn()},
            )
        ]
        for _ in range(3):
            for average in averages:
                average.update_parameters(module)
            with t.no_grad():
                module.p.mul_(0.5j)
        module.p.grad = t.tensor(TARGET[0])
        norm = t.nn.utils.clip_grad_norm_([module.p], 0.5)
        tensors = [*(a.module.p.detach() for a in averages), module.p.grad, norm]
        found.append([x.numpy().copy() for x in tensors])
    close(*found, 1e-6)  # PyTorch counts the averages in float32
