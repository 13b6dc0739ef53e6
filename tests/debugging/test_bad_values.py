"""`wend.debug.find_nan` and `nan_guard`: a hundred programs in which an op makes a bad value.

Each plant is an op that behaves for one `z` and not for another, so that its path stays the same.
Each place is a model around it, each mode a way in which Wend computes it.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from tests.debugging.modes import MODES

import wend
import wend as torch
from wend._engine.base import config
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, BadValueError, GraphError
from wend._engine.core import _hot
from wend._engine.core.primitive import REGISTRY
from wend._engine.runtime.verify.bad_values import hands_on

F = torch.nn.functional

# -- plants: (name of the op, good z, bad z, function of the activations and z) -----------------
# Each function has its op in its last line, from which `line_of` takes the number.


def log_of_negative(h, z):
    inside = h.abs() + z
    return inside.log()


def zero_by_zero(h, z):
    above = h * z
    return above / z


def root_of_negative(h, z):
    inside = h.square() + z
    return torch.sqrt(inside)


def overflow_of_exp(h, z):
    inside = h.abs() + z
    return torch.exp(inside)


def all_masked(h, z):
    scores = h.masked_fill(z.expand_as(h) > 1, float("-inf"))
    return torch.softmax(scores, -1)


def by_norm_of_zero(h, z):
    norm = (h * z).norm()
    return (h.abs() + 1) / norm


def logarithm_below_its_range(h, z):
    inside = h * 0 + z
    return inside.log1p()


def angle_beyond_one(h, z):
    inside = torch.tanh(h) * 0.5 + z
    return torch.acos(inside)


def overflow_of_product(h, z):
    inside = h.abs() + z
    return inside * inside


def root_of_zero_below(h, z):
    inside = h * z
    return inside.square().rsqrt()


FORWARD = [
    ("log", 1.0, -1e3, log_of_negative),
    ("div", 1.0, 0.0, zero_by_zero),
    ("sqrt", 1.0, -1e5, root_of_negative),
    ("exp", 1.0, 1e3, overflow_of_exp),
    ("softmax", 1.0, 2.0, all_masked),
    ("div", 1.0, 0.0, by_norm_of_zero),
    ("log1p", 1.0, -3.0, logarithm_below_its_range),
    ("acos", 0.0, 4.0, angle_beyond_one),
    ("mul", 1.0, 1e30, overflow_of_product),
    ("rsqrt", 1.0, 0.0, root_of_zero_below),
]


def slope_of_root_at_zero(h, z):
    inside = h.abs() * z
    return inside.sqrt()


def slope_of_norm_at_zero(h, z):
    squares = (h * z).square().sum()
    return h + squares.sqrt()


def masked_logarithm(h, z):
    inside = h.abs() * z + z
    return torch.where(z > 0, inside.log(), h)


def slope_of_power_at_zero(h, z):
    inside = h.abs() * z
    return inside**0.5


def slope_of_angle_at_one(h, z):
    inside = h * 0 + z
    return torch.asin(inside)


def slope_of_cosine_at_one(h, z):
    inside = h * 0 + z
    return torch.acos(inside)


def slope_of_area_at_one(h, z):
    inside = h * 0 + z
    return inside.acosh()


def slope_of_length_of_nothing(h, z):
    inside = h * z
    return torch.hypot(inside, inside)


def masked_logarithm_of_one_more(h, z):
    inside = h * 0 + z
    return torch.where(z > -1, torch.log1p(inside), h)


def slope_of_cube_root_at_zero(h, z):
    inside = h.square() * z
    return torch.pow(inside, 1 / 3)


BACKWARD = [
    ("SqrtBackward0", 1.0, 0.0, slope_of_root_at_zero),
    ("SqrtBackward0", 1.0, 0.0, slope_of_norm_at_zero),
    ("LogBackward0", 1.0, 0.0, masked_logarithm),
    ("PowBackward0", 1.0, 0.0, slope_of_power_at_zero),
    ("AsinBackward0", 0.5, 1.0, slope_of_angle_at_one),
    ("AcosBackward0", 0.5, -1.0, slope_of_cosine_at_one),
    ("AcoshBackward0", 2.0, 1.0, slope_of_area_at_one),
    ("HypotBackward0", 1.0, 0.0, slope_of_length_of_nothing),
    ("Log1PBackward0", 1.0, -1.0, masked_logarithm_of_one_more),
    ("PowBackward0", 1.0, 0.0, slope_of_cube_root_at_zero),
]


def line_of(function):
    """The number of a function's last line."""
    return max(line for _, _, line in function.__code__.co_lines() if line is not None)


# -- places -----------------------------------------------------------------------------------


class Perceptron(torch.nn.Module):
    shape = (3, 4)

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 5), torch.nn.Linear(5, 2)

    def forward(self, x, z, plant):
        return self.last(plant(torch.tanh(self.first(x)), z))


class Convolutional(torch.nn.Module):
    shape = (2, 1, 6, 6)

    def __init__(self):
        super().__init__()
        self.conv, self.last = torch.nn.Conv2d(1, 2, 3), torch.nn.Linear(32, 2)

    def forward(self, x, z, plant):
        return self.last(plant(torch.tanh(self.conv(x)), z).flatten(1))


class Recurrent(torch.nn.Module):
    """The plant is in the last turn of a loop."""

    shape = (2, 3, 4)

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.RNNCell(4, 5)

    def forward(self, x, z, plant):
        h = torch.zeros(2, 5)
        for t in range(3):
            h = self.cell(x[:, t], h)
            if t == 2:
                h = plant(h, z)
        return h


class Attentive(torch.nn.Module):
    shape = (2, 3, 4)

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm, self.last = torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)

    def forward(self, x, z, plant):
        y, _ = self.attention(x, x, x)
        return self.last(plant(self.norm(x + y), z))


class Branching(torch.nn.Module):
    """The plant is on one side of a branch on a value."""

    shape = (3, 4)

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 5), torch.nn.Linear(5, 2)

    def forward(self, x, z, plant):
        h = torch.tanh(self.first(x))
        if h.abs().sum() > 0:
            h = plant(h, z)
        return self.last(h)


PLACES = (Perceptron, Convolutional, Recurrent, Attentive, Branching)


def program_of(place, plant, backward):
    """A function that trains, or only computes, with the plant in its place."""
    torch.manual_seed(0)
    model = place()
    x = torch.tensor(np.random.default_rng(1).normal(size=place.shape).astype(np.float32) + 0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def one(z):
        return model(x, z, plant).mean()

    def run(numbers, fibers=False):
        zs = [torch.tensor([z]) for z in numbers]
        with nullcontext() if backward else torch.no_grad():
            parts = wend.batched(one)(zs) if fibers else [one(z) for z in zs]
            loss = sum(parts[1:], parts[0])
        if backward:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return run, model


def caught(place, plant, mode, good, bad, backward):
    """What the guard finds."""
    run, model = program_of(place, plant, backward)
    with wend.debug.nan_guard(model), pytest.raises(BadValueError) as error:
        mode(run, good, bad)
    return error.value.finding


def cases(plants):
    """(op, good, bad, plant, place, mode): each plant in each place, the modes in turn."""
    for i, (op, good, bad, plant) in enumerate(plants):
        for j, place in enumerate(PLACES):
            mode = MODES[(i + j) % len(MODES)]
            name = f"{plant.__name__}-{place.__name__}-{mode.__name__}"
            yield pytest.param(op, good, bad, plant, place, mode, id=name)


@pytest.mark.parametrize(("op", "good", "bad", "plant", "place", "mode"), list(cases(FORWARD)))
def test_forward(op, good, bad, plant, place, mode):
    found = caught(place, plant, mode, good, bad, backward=False)
    assert (found.op, found.direction, found.line) == (op, "forward", line_of(plant)), found
    assert found.exact and not any(facts.nans for facts in found.operands), found


@pytest.mark.parametrize(("op", "good", "bad", "plant", "place", "mode"), list(cases(BACKWARD)))
def test_backward(op, good, bad, plant, place, mode):
    found = caught(place, plant, mode, good, bad, backward=True)
    assert (found.op, found.direction, found.line) == (op, "backward", line_of(plant)), found
    assert found.exact and not any(facts.nans for facts in found.operands), found


# -- what the guard does besides ----------------------------------------------------------------


def test_message():
    """The op, its line, its operands with ranges, the module."""
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(3e38)
    x = torch.ones(1, 2)
    with wend.debug.nan_guard(model) as guard, pytest.raises(BadValueError) as error:
        model(x * 3).sum().item()
    found = guard.found[0]
    assert found is error.value.finding
    assert found.module == "Linear" and found.kind == "infinity"
    assert "linear" in str(found) and "from 3e+38 to 3e+38" in str(found)
    assert f"{__file__}:{test_message.__code__.co_firstlineno + 7}" in str(error.value)


def test_chain_of_infinity_and_nan():
    """The infinity comes first, and the op that makes a NaN of it is told as well."""
    x = torch.tensor([0.0, 1.0])
    with wend.debug.nan_guard(), pytest.raises(BadValueError) as error:
        y = x.log()
        (y - y).sum().item()
    found = error.value.finding
    assert (found.op, found.kind) == ("log", "infinity")
    assert found.later[0] == "sub" and found.later[1].line == found.line + 1


def test_infinities_of_the_program_are_no_fault():
    """A mask of infinities is as it should be, also as a result."""
    with wend.debug.nan_guard() as guard:
        mask = torch.full((3, 3), float("-inf")).triu(1)
        scores = torch.ones(3, 3) + mask
        assert torch.isinf(scores).sum().item() == 3
        assert torch.softmax(scores, -1).sum().item() == pytest.approx(3)
    assert not guard.found


def test_a_bad_operand_is_told():
    """No op is at fault if the data has a NaN."""
    x = torch.tensor([1.0, float("nan")])
    with wend.debug.nan_guard(), pytest.raises(BadValueError, match="came in with an operand"):
        (x * 2).sum().item()


def test_infinities_can_be_left_alone():
    x = torch.tensor([0.0])
    with wend.debug.nan_guard(infinities=False) as guard:
        assert x.log().item() == float("-inf")
        with pytest.raises(BadValueError):
            (x / x).item()
    assert len(guard.found) == 1


def test_actions():
    x = torch.tensor([-1.0])
    with wend.debug.nan_guard(action="warn"), pytest.warns(UserWarning, match="log made a NaN"):
        x.log().item()
    with wend.debug.nan_guard(action="note") as guard:
        x.log().item()
        x.sqrt().item()
    assert [found.op for found in guard.found] == ["log", "sqrt"]
    with pytest.raises(ArgumentError, match="action='shout'"):
        wend.debug.nan_guard(action="shout")
    with pytest.raises(ArgumentTypeError, match="a module or several, not a int"):
        wend.debug.nan_guard(3)


def test_parameters_return_to_their_values():
    """After the error of a step, the parameters are as they were before its update."""
    run, model = program_of(Perceptron, slope_of_root_at_zero, backward=True)
    with wend.debug.nan_guard(model):
        run([1.0])
        before = [p.detach().clone() for p in model.parameters()]
        with pytest.raises(BadValueError):
            run([0.0])
        for p, old in zip(model.parameters(), before, strict=True):
            assert np.array_equal(p.detach().numpy(), old.numpy())
        model.zero_grad()
        assert np.isfinite(run([1.0]))


def test_update():
    """An op of an optimizer's update is found at the line of the call."""
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([w], lr=1e38)
    with wend.debug.nan_guard(), pytest.raises(BadValueError) as error:
        (w * 1e5).sum().backward()
        optimizer.step()
        w.sum().item()
    found = error.value.finding
    assert found.kind == "infinity" and found.direction == "forward"
    assert found.line == test_update.__code__.co_firstlineno + 6


def test_a_segment_of_an_earlier_flush():
    """The loss is read before the backward pass."""
    w = torch.nn.Parameter(torch.zeros(3))
    with wend.debug.nan_guard(), pytest.raises(BadValueError) as error:
        y = w.abs().sqrt()
        assert y.sum().item() == 0
        y.sum().backward()
        w.grad.sum().item()
    found = error.value.finding
    assert (found.op, found.direction) == ("SqrtBackward0", "backward")
    assert found.line == test_a_segment_of_an_earlier_flush.__code__.co_firstlineno + 4


def test_no_guard_left_behind():
    before = _hot.slot("execute"), _hot.slot("execute_many")
    with wend.debug.nan_guard():
        assert _hot.slot("execute") is not before[0]
    assert (_hot.slot("execute"), _hot.slot("execute_many")) == before
    assert torch.tensor([-1.0]).log().isnan().item()


def test_no_cost_without_the_guard():
    """No op, no flush and no read more: the slots hold the functions of the runtime."""
    if config.settings.verify or config.settings.nan_guard:
        pytest.skip("flushes are looked through in this run")
    from wend._engine.runtime.native.launcher import launcher

    assert _hot.slot("execute") == launcher.execute
    run, _ = program_of(Perceptron, log_of_negative, backward=True)
    counts = []
    for with_guard in (False, True, False):
        with wend.debug.nan_guard() if with_guard else nullcontext():
            for _ in range(3):
                run([1.0])
            before = _hot.count("flushes"), _hot.current_trace().ops_before
            run([1.0])
            after = _hot.count("flushes"), _hot.current_trace().ops_before
            counts.append([b - a for a, b in zip(before, after, strict=True)])
    assert counts[0] == counts[1] == counts[2]


# -- after the fact -----------------------------------------------------------------------------


def test_find_nan_by_history():
    """The saved operands are held: the op is exact."""
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = x.log()
    loss = (y * y).sum()
    assert np.isnan(loss.item())
    found = wend.debug.find_nan(loss)
    assert (found.op, found.exact, found.kind) == ("log", True, "NaN")
    assert found.line == test_find_nan_by_history.__code__.co_firstlineno + 3
    assert found.operands[0].low == -2.0


def test_find_nan_in_an_earlier_flush():
    """The history is followed through flushes."""
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = x.log()
    assert np.isnan(y.sum().item())
    loss = (y * y).sum()
    assert np.isnan(loss.item())
    found = wend.debug.find_nan(loss)
    assert (found.op, found.exact) == ("log", True)


def test_find_nan_without_operands():
    """What is gone is said to be gone, with a remedy that finds the op."""
    w = torch.nn.Parameter(torch.ones(2))

    def step():
        x = torch.tensor([1.0, -2.0])
        y = x.log()
        loss = (y * w).sum()
        loss.backward()
        w.grad = None
        return loss

    loss = step()
    assert np.isnan(loss.item())
    found = wend.debug.find_nan(loss)
    assert not found.exact and "nan_guard" in found.note
    found = wend.debug.find_nan(rerun=step)
    assert (found.op, found.exact) == ("log", True)
    assert found.line == step.__code__.co_firstlineno + 2


def test_find_nan_without_history():
    y = torch.tensor([-1.0]).log()
    found = wend.debug.find_nan(y)
    assert not found.exact and "no history" in found.note
    assert wend.debug.find_nan(torch.ones(2)) is None
    assert wend.debug.find_nan(rerun=lambda: torch.ones(2).sum()) is None
    with pytest.raises(ArgumentTypeError, match="takes tensors, not a int"):
        wend.debug.find_nan(3)


def test_anomaly_mode_tells_operands():
    w = torch.nn.Parameter(torch.zeros(3))
    with torch.autograd.detect_anomaly(), pytest.raises(GraphError) as error:
        (w.abs().sqrt() * 0).sum().backward()
    text = str(error.value)
    assert "Function 'SqrtBackward0' returned nan values in its 0th output." in text
    assert "gradient of result 0: float32[3] from 0 to 0" in text


@pytest.mark.parametrize(
    ("op", "nan", "infinity"),
    [
        *[("add", True, False), ("exp", True, False), ("sum", True, False)],
        *[("neg", True, True), ("reshape", True, True)],
        *[("lt", False, False), ("logical_not", False, False), ("signbit", False, False)],
        *[("pow", False, False), ("where", False, False), ("relu", True, False)],
    ],
)
def test_ops_that_hand_bad_elements_on(op, nan, infinity):
    """Only these prove where a bad element of an unknown operand came from."""
    prim = REGISTRY[op].__new__(REGISTRY[op])
    assert (hands_on(prim, 0), hands_on(prim, 1)) == (nan, infinity)
