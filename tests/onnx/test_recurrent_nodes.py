"""Loops and recurrent layers as Loop, LSTM, GRU and RNN nodes, at three sizes in onnxruntime."""

import numpy as np
import pytest

import wend as torch
from wend import nn
from wend._engine.base import tree

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def nodes(graph):
    """All nodes, those of graphs inside too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def count(model, op):
    return sum(node.op_type == op for node in nodes(model.graph))


def checked(function, *rows):
    """Export with the first row of inputs; compare at all rows, by onnxruntime and loaded again."""
    program = torch.onnx.export(function, rows[0])
    again = torch.onnx.load(program.model_proto.SerializeToString())
    for row in rows:
        expected = [np.asarray(y.detach()) for y in tree.leaves(function(*row))]
        for found in (program(*row), tree.leaves(again(*row))):
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(np.asarray(a.detach()), b, rtol=1e-4, atol=1e-5)
    return program.model_proto


def sequences(features):
    return [(torch.randn(*s, features),) for s in ((5, 3), (1, 1), (9, 2))]


LAYERS = {
    "lstm": (lambda: nn.LSTM(4, 6), "LSTM", 1),
    "gru": (lambda: nn.GRU(4, 6, 2, batch_first=True), "GRU", 2),
    "tanh": (lambda: nn.RNN(4, 6, 2, bias=False), "RNN", 2),
    "relu": (lambda: nn.RNN(4, 6, nonlinearity="relu", bidirectional=True), "RNN", 2),
    "dropout": (lambda: nn.LSTM(4, 6, 2, dropout=0.5), "LSTM", 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_becomes_nodes(name):
    make, op, wanted = LAYERS[name]
    model = checked(make().eval(), *sequences(4))
    assert count(model, op) == wanted
    assert count(model, "Loop") == 0


def test_given_states_are_read():
    layer = nn.LSTM(4, 6, 2).eval()
    rows = [
        (x, torch.randn(2, x.shape[1], 6), torch.randn(2, x.shape[1], 6)) for (x,) in sequences(4)
    ]
    assert count(checked(lambda x, h, c: layer(x, (h, c)), *rows), "LSTM") == 2


def test_a_projection_stays_a_loop():
    model = checked(nn.LSTM(4, 6, proj_size=3).eval(), *sequences(4))
    assert (count(model, "LSTM"), count(model, "Loop"), count(model, "If")) == (0, 1, 0)


def test_a_loop_with_more_than_a_step_stays_a_loop():
    cell = nn.GRUCell(4, 4)

    def residual(x):
        h = x.new_zeros(x.size(1), 4)
        out = []
        for row in x:
            h = cell(row, h) + row
            out.append(h)
        return torch.stack(out), h

    model = checked(residual, *sequences(4))
    assert (count(model, "GRU"), count(model, "Loop"), count(model, "If")) == (0, 1, 0)
    (loop,) = [node for node in model.graph.node if node.op_type == "Loop"]
    assert len(loop.input) == 3, "the limit, no condition, and a state: the list is a scan output"


def test_the_same_layer_comes_back():
    layer = nn.GRU(4, 6).eval()
    first = torch.onnx.export(layer, sequences(4)[0])
    again = torch.onnx.load(first.model_proto.SerializeToString())
    second = torch.onnx.export(again, sequences(4)[0])
    kinds = [[n.op_type for n in p.model_proto.graph.node] for p in (first, second)]
    assert kinds[0] == kinds[1]
    arrays = [
        [onnx.numpy_helper.to_array(t) for t in p.model_proto.graph.initializer]
        for p in (first, second)
    ]
    for a, b in zip(*arrays, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_tree_lstm_over_arrays():
    """Nodes in an order in which children come first; rows of `children` are their places."""
    leaf, hidden = nn.Linear(3, 4), nn.Linear(8, 20)

    def forward(words, children):
        n = words.size(0)
        h = c = words.new_zeros(n + 1, 4)
        for t in range(n):
            left, right = children[t, 0], children[t, 1]
            gates = hidden(torch.cat([h[left], h[right]])) + leaf(words[t]).repeat(5)
            i, f, g, o, u = gates.chunk(5)
            state = i.sigmoid() * u.tanh() + f.sigmoid() * c[left] + g.sigmoid() * c[right]
            place = torch.arange(n + 1).eq(t)[:, None]
            c = torch.where(place, state, c)
            h = torch.where(place, o.sigmoid() * state.tanh(), h)
        return h[n - 1]

    def example(n):
        children = torch.tensor([[n if t < 2 else t - 2, n if t < 2 else t - 1] for t in range(n)])
        return torch.randn(n, 3), children

    assert count(checked(forward, example(5), example(2), example(9)), "Loop") == 1


def test_a_beam_search():
    """The best sequences by value; the search ends when all beams have ended."""
    cell, embed, head = nn.GRUCell(6, 8), nn.Embedding(7, 6), nn.Linear(8, 7)
    width = 3

    def forward(state, most):
        h = state + torch.zeros(width, 1)
        score = torch.tensor([0.0, -1e9, -1e9])
        word = torch.zeros(width, dtype=torch.int64)
        ended = torch.zeros(width, dtype=torch.bool)
        length = torch.zeros(())
        while (length < most).all():
            if ended.all():
                break
            h = cell(embed(word), h)
            step = head(h).log_softmax(-1).masked_fill(ended[:, None], 0.0)
            best, place = (score[:, None] + step).flatten().topk(width)
            score, origin, word = best, place // 7, place % 7
            h, ended = h[origin], ended[origin] | (word == 1)
            length = length + 1
        return score, word, length

    rows = [(torch.randn(1, 8), torch.tensor(float(n))) for n in (6, 1, 20)]
    model = checked(forward, *rows)
    assert count(model, "Loop") == 1
    assert count(model, "TopK") <= 2, "the first turn, and the loop"
