"""Edits of graphs of different kinds: each runs as the changed program does, or says why not."""

import numpy as np
import pytest

import wend as torch
from wend import debug, nn
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError

F = nn.functional


def linear():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), torch.randn(3, 4)


def conv():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2)), torch.randn(2, 1, 6, 6)


def attention():
    return nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True).eval(), torch.randn(2, 3, 4)


def recurrent():
    return nn.GRUCell(4, 4), torch.randn(2, 4)


def residual():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    return lambda x: x + second(F.gelu(first(x))), torch.randn(3, 4)


def several():
    def function(x):
        a, b = x.chunk(2, 1)
        values, places = (a * b).max(1)
        return values.exp(), places, (a + b).sum()

    return function, torch.randn(3, 4)


def graph_of(make):
    torch.manual_seed(0)
    function, x = make()
    return debug.graph(function, x), function, x


def close(found, expected):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5)


def one(graph, op, at=0):
    return graph.find(op)[at]


def averaged(x):
    return F.avg_pool2d(x, 2)


# -- replacing ------------------------------------------------------------------------------------

REPLACED = [
    (linear, "tanh", 0, torch.relu, lambda f, x: f[2](f[0](x).relu())),
    (linear, "linear", 0, lambda x, w, b: x @ w.T, lambda f, x: f[2]((x @ f[0].weight.T).tanh())),
    (linear, "linear", 1, lambda x, w, b: x, lambda f, x: f[0](x).tanh()),
    (conv, "relu", 0, torch.sigmoid, lambda f, x: f[2](f[0](x).sigmoid())),
    (conv, "max_pool2d", 0, lambda x: F.avg_pool2d(x, 2), lambda f, x: averaged(f[1](f[0](x)))),
    (residual, "gelu", 0, torch.zeros_like, None),
    (several, "mul", 0, lambda a, b: a - b, lambda f, x: (x[:, :2] - x[:, 2:]).max(1)[0].exp()),
    (several, "exp", 0, lambda v: v * 2, lambda f, x: (x[:, :2] * x[:, 2:]).max(1)[0] * 2),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REPLACED)))
def test_replaced(case):
    make, op, at, function, expected = REPLACED[case]
    graph, model, x = graph_of(make)
    graph.replace(one(graph, op, at), function)
    found = graph.run()[0]
    if expected is None:  # nothing but the bias of the second layer is added
        bias = next(t for i, t in graph.leaves.items() if graph[i].shape == (4,) and i > 3)
        close(found, x + bias)
    else:
        close(found, expected(model, x))


def test_gradients_flow_through_an_edited_graph():
    graph, model, x = graph_of(linear)
    graph.replace(one(graph, "tanh"), torch.relu)
    graph.run()[0].sum().backward()
    found = model[0].weight.grad.clone()
    model.zero_grad()
    model[2](model[0](x).relu()).sum().backward()
    close(found, model[0].weight.grad)


# -- dropping and probing -------------------------------------------------------------------------


def test_an_op_is_dropped():
    graph, model, x = graph_of(linear)
    graph.drop(one(graph, "tanh"))
    close(graph.run()[0], model[2](model[0](x)))


@pytest.mark.parametrize("operand", [0, 1])
def test_a_branch_is_dropped(operand):
    """Of `x + f(x)` either side is left."""
    graph, model, x = graph_of(residual)
    seen = []
    (gelu,) = graph.find("gelu")
    (total,) = graph.find("add")
    graph.drop(total, operand)
    found = graph.run()[0]
    close(found, x if operand == 0 else model(x) - x)
    graph.probe(gelu, lambda t: seen.append(t.shape))  # a probe is run, needed or not
    graph.run()
    assert seen == [(3, 4)]


@pytest.mark.parametrize("make", [linear, conv, attention, recurrent, residual, several])
def test_every_op_can_be_probed(make):
    graph, model, x = graph_of(make)
    ops = [node for node in graph if node.id in graph.calls]
    seen = []
    for node in ops:
        graph.probe(node, lambda t, i=node.id: seen.append((i, tuple(t.shape))))
    results = graph.run()
    assert seen == [(node.id, node.shape) for node in ops]
    expected = model(x)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_edits_add_up():
    graph, model, x = graph_of(conv)
    seen = []
    graph.replace(one(graph, "relu"), torch.tanh)
    graph.probe(one(graph, "conv2d"), lambda t: seen.append(t.shape))
    graph.replace(one(graph, "max_pool2d"), lambda t: F.avg_pool2d(t, 2))
    close(graph.run()[0], F.avg_pool2d(model[0](x).tanh(), 2))
    graph.restore()
    close(graph.run()[0], model(x))
    assert len(seen) == 1


# -- edits that are wrong -------------------------------------------------------------------------

WRONG = [
    (linear, "tanh", lambda t: t[:, :2], r"float32\[3, 2\], where float32\[3, 4\] is needed"),
    (linear, "tanh", lambda t: t.double(), r"float64\[3, 4\], where float32\[3, 4\] is needed"),
    (linear, "tanh", lambda t: t.numpy(force=True), r"returned ndarray, not a tensor"),
    (conv, "max_pool2d", lambda t: t, r"float32\[2, 2, 4, 4\], where float32\[2, 2, 2, 2\]"),
    (conv, "relu", lambda t: None, r"returned NoneType, not a tensor"),
    (several, "exp", lambda t: t.long(), r"int64\[3\], where float32\[3\] is needed"),
    (residual, "gelu", lambda t: t.sum(), r"float32\[\], where float32\[3, 4\] is needed"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_a_wrong_function_is_told_with_the_line(case):
    make, op, function, text = WRONG[case]
    graph, _, _ = graph_of(make)
    node = one(graph, op)
    graph.replace(node, function)
    with pytest.raises(GraphError, match=text) as error:
        graph.run()
    assert f"%{node.id} ({op} at {node.place})" in str(error.value)


def test_edits_that_no_graph_allows():
    graph, _, x = graph_of(several)
    pair = graph.find(where=lambda node: node.results == 2)[0]
    with pytest.raises(ArgumentError, match="nothing that reads the result could take it"):
        graph.drop(one(graph, "sum"))
    with pytest.raises(ArgumentError, match="there is no operand 3"):
        graph.drop(one(graph, "mul"), 3)
    with pytest.raises(ArgumentError, match="has 2 results"):
        graph.replace(pair, torch.relu)
    with pytest.raises(ArgumentTypeError, match="expected a function"):
        graph.probe(one(graph, "mul"), "print")
    with pytest.raises(ArgumentError, match="has no node %999"):
        graph.probe(999, print)
    with pytest.raises(ArgumentError, match="cannot be run by itself"):
        graph.replace(graph.find("input")[0], torch.relu)
    with pytest.raises(ArgumentError, match="graph is that of these sizes"):
        graph.run({"input 0": torch.randn(5, 4)})
    close(graph.run({"input 0": x})[2], x.sum())
