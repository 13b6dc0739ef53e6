"""Names of tensors that a step reads: parameters, gradients from before, optimizers' state."""

import pytest

import wend
from wend import debug, nn

pytestmark = pytest.mark.usefixtures("own_trie")


def stepper(model, optimizer):
    def step(zero=True):
        if zero:
            optimizer.zero_grad()
        model(wend.ones(1, 2)).sum().backward()
        optimizer.step()

    return step


def names_of(graph):
    return {node.name for node in graph if node.is_leaf}


def test_gradients_and_states_have_names():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1, bias=False))
    step = stepper(model, wend.optim.Adam(model.parameters()))
    first = names_of(debug.graph(step))
    assert not any("exp_avg" in name for name in first)  # the step itself makes the state
    names = names_of(debug.graph(step, zero=False))
    for name in ("Sequential.0.weight", "Sequential.0.bias", "Sequential.1.weight"):
        assert {name, f"gradient of {name}", f"exp_avg of {name}", f"exp_avg_sq of {name}"} <= names
    assert "" not in names
    assert not any(name.startswith("gradient") for name in names_of(debug.graph(step)))


def test_a_parameter_of_no_module():
    free = wend.ones(2, requires_grad=True)
    optimizer = wend.optim.SGD([free], lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad()
        free.square().sum().backward()
        optimizer.step()

    step()
    assert "momentum_buffer of a parameter" in names_of(debug.graph(step))


@pytest.mark.parametrize("name", ["LBFGS", "Adafactor", "Rprop", "SGD"])
def test_other_optimizers_can_be_watched(name):
    model = nn.Linear(2, 2)
    optimizer = getattr(wend.optim, name)(model.parameters(), lr=0.01)

    def closure():
        optimizer.zero_grad()
        loss = model(wend.ones(1, 2)).square().sum()
        loss.backward()
        return loss

    for _ in range(2):
        graph = debug.graph(lambda: optimizer.step(closure))
        assert {"Linear.weight", "Linear.bias"} <= names_of(graph)
