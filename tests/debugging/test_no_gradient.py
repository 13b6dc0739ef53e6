"""`wend.debug.why_no_gradient`, `memory(model)` and `explain(op)`: kinds, names, errors."""

import subprocess
import sys

import pytest

import wend
from wend import debug, nn
from wend._engine.base import config

pytestmark = pytest.mark.usefixtures("own_trie")


class Parts(nn.Module):
    """A linear layer for each way to lose a gradient."""

    def __init__(self):
        super().__init__()
        names = ("good", "frozen", "off", "cut", "chosen", "aside", "dead", "spare", "twice")
        for name in names:
            setattr(self, name, nn.Linear(3, 3, bias=False))
        self.frozen.requires_grad_(False)
        self.unread = nn.Parameter(wend.zeros(3))

    def forward(self, x):
        h = self.good(x) + self.frozen(x) + self.cut(x).detach()
        with wend.no_grad():
            off = self.off(x)
        h = h + off
        rows = self.chosen(x).argmax(1)
        self.aside(x).tanh()
        h = h + (self.dead(x) * 0 - 1).relu()
        lost = self.twice(x)
        h = h + lost.detach() + lost.sign().detach()
        return h[wend.arange(2), rows]


KINDS = {
    "unread": ("unused", "although its module is called"),
    "frozen.weight": ("frozen", "requires_grad is False"),
    "off.weight": ("cut", "linear is computed where gradients are off"),
    "cut.weight": ("cut", "detach has no gradient"),
    "chosen.weight": ("cut", "argmax has no gradient"),
    "dead.weight": ("zero", "all of its elements are 0"),
    "spare.weight": ("unused", "spare is not called"),
    "twice.weight": ("cut", "detach has no gradient (and 1 more such place)"),
}


def stepper(model):
    optimizer = wend.optim.Adam(model.parameters())

    def step(scale=1.0):
        optimizer.zero_grad()
        loss = model(wend.ones(2, 3)).sum() * scale
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("before", [0, 4])
def test_the_kinds(before):
    wend.manual_seed(0)
    model = Parts()
    step = stepper(model)
    for _ in range(before):
        step().item()
    found = debug.why_no_gradient(model, step, scale=2.0)
    told = {row.name: row for row in found}
    told.pop("aside.weight", None)  # nobody has the result: it is not even computed
    assert {name: row.kind for name, row in told.items()} == {k: v[0] for k, v in KINDS.items()}
    for name, (_, text) in KINDS.items():
        assert text in told[name].text, name
    placed = {row.name for row in found if "test_no_gradient.py" in row.place}
    assert placed >= {"off.weight", "cut.weight", "chosen.weight", "dead.weight", "twice.weight"}
    assert found.reached == ["good.weight"]
    assert bool(found) and len(found) >= 8
    assert "parameters get no gradient" in str(found)


def test_the_step_has_its_effects_and_leaves_no_hooks():
    model = nn.Linear(2, 1)
    step = stepper_of(model)
    before = model.weight.tolist()
    found = debug.why_no_gradient(model, step)
    assert not found and found.reached == ["weight", "bias"]
    assert str(found) == "0 of 2 parameters get no gradient"
    assert model.weight.tolist() != before and model.weight.grad is not None
    assert not model.weight._backward_hooks


def stepper_of(model):
    optimizer = wend.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        model(wend.ones(2, 2)).sum().backward()
        optimizer.step()

    return step


def test_results_that_no_loss_is_made_of():
    model = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)])

    def step():
        kept = model[0](wend.ones(1, 2)).exp()
        model[1](wend.ones(1, 2)).sum().backward()
        return kept

    (row,) = debug.why_no_gradient(model, step)
    assert (row.name, row.kind) == ("0.weight", "dead end")
    assert "exp leads to" in row.text and "in test_results" in row.place


def test_no_backward_at_all():
    model = nn.Linear(2, 2)
    found = debug.why_no_gradient(model, lambda: model(wend.ones(1, 2)))
    assert [row.kind for row in found] == ["no backward", "no backward"]


def test_errors_of_why_no_gradient():
    model = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="expected a module first, got a function"):
        debug.why_no_gradient(stepper, model)
    with pytest.raises(TypeError, match="expected step to be a function"):
        debug.why_no_gradient(model, 3)
    with pytest.raises(ValueError, match="a ReLU without parameters"):
        debug.why_no_gradient(nn.ReLU(), lambda: None)

    def fails():
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        debug.why_no_gradient(model, fails)
    assert not model.weight._backward_hooks


def test_memory_of_several_models_by_module():
    a, b = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(2, 2)
    y = a(wend.ones(5, 3)).tanh()
    wend.synchronize()
    found = debug.memory(a, b)
    modules = found.by_module()
    assert modules["Linear 1"] == 4 * 6
    assert modules["Sequential 0.1"] >= 4 * 4 * 4  # two parameters, two buffers
    owners = {row.where: row.owner for row in found.rows}
    assert owners["Sequential 0.1.running_mean"] == "buffers"
    assert found.by_module(depth=1).keys() >= {"Sequential 0", "Linear 1"}
    assert found.total == sum(modules.values()) == sum(found.by_owner().values())
    assert "by module:" in str(found) and "by module" not in str(debug.memory())
    assert y.shape == (5, 4)
    with pytest.raises(TypeError, match="takes modules, not a Tensor"):
        debug.memory(y)


def test_names_leave_the_total_as_it_is():
    """In a process of its own: what other tests have left behind may go between the two calls."""
    program = """
from wend import debug, nn, ones
models = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(2, 2)
y = models[0](ones(5, 3)).tanh()
y.tolist()
whole, named = debug.memory(), debug.memory(*models)
assert whole.total == named.total > 0, (whole, named)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_kernels_of_an_op():
    pytest.importorskip("wend._engine.compiler.llvm_ir.jit")
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    x = wend.ones(2, 4)
    with config.override(compile=True, wait=True, deterministic=False):
        model(x).square().sum().backward()
        wend.synchronize()
        whole, part = debug.explain(), debug.explain("tanh_backward")
        (flush,) = part.flushes
        shown = part.steps(flush)
        assert 0 < len(shown) < len(flush.steps) == len(whole.steps(whole.flushes[0]))
        assert all("tanh_backward" in [op for op, _ in step.recorded] for step in shown)
        assert [flush.steps[step.number] for step in shown] == shown
        assert f"tanh_backward: {len(shown)} step" in str(part)
        assert part._repr_html_().count("<tr>") == len(shown) + 1
        assert "conv2d: 0 steps" in str(debug.explain("conv2d"))
    with pytest.raises(TypeError, match="expected the name of an op, got int"):
        debug.explain(3)
