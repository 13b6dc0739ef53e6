"""`lstm`, `gru`, `rnn_tanh` and `rnn_relu` with a list of weights, against PyTorch's and layers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from side_by_side import leaves, same, to_torch, to_wend  # noqa: E402

import wend  # noqa: E402

RNG = np.random.default_rng(0)
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
SETTINGS = [
    {},
    {"layers": 2, "both": True},
    {"biased": False, "batch_first": True},
    {"layers": 3, "both": True, "biased": False},
    {"steps": 1, "batch": 1},
    {"batch": 0},
]


def made(op, layers=1, both=False, biased=True, batch=2, batch_first=False, steps=4, width=None):
    """(state, params, rest) as PyTorch's tensors that require gradients."""
    inputs, hidden, directions = 3, 5, 2 if both else 1
    wide = width or hidden
    params = []
    for layer in range(layers):
        for _ in range(directions):
            columns = inputs if layer == 0 else wide * directions
            rows = GATES[op] * hidden
            shapes = [(rows, columns), (rows, wide), *[(rows,)] * (2 * biased)]
            shapes += [(wide, hidden)] if width else []
            params += [RNG.normal(size=s).astype(np.float32) / 3 for s in shapes]
    state = RNG.normal(size=(layers * directions, batch, wide)).astype(np.float32)
    if op == "lstm":
        state = (state, RNG.normal(size=(layers * directions, batch, hidden)).astype(np.float32))
    data = RNG.normal(size=(batch, steps, inputs) if batch_first else (steps, batch, inputs))
    given = to_torch([data.astype(np.float32), state, params])
    return given, (biased, layers, 0.0, False, both)


def compared(op, given, rest, call):
    """Results and gradients of both libraries are equal."""
    ours = to_wend(given)
    theirs = call(torch, *given, *rest)
    results = call(wend, *ours, *rest)
    assert len(results) == len(theirs) == (3 if op == "lstm" else 2)
    for i, (mine, expected) in enumerate(zip(results, theirs, strict=True)):
        same(mine, expected, f"{op} result {i}")
    sum(r.sin().sum() for r in theirs).backward()
    sum(r.sin().sum() for r in results).backward()
    for i, (mine, expected) in enumerate(zip(leaves(ours), leaves(given), strict=True)):
        same(mine.grad, expected.grad, f"{op} gradient {i}", 1e-4)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_equal_torchs(op, settings):
    given, rest = made(op, **settings)
    last = settings.get("batch_first", False)

    def call(t, x, hx, params, *more):
        return getattr(t, op)(x, hx, params, *more, last)

    compared(op, given, rest, call)


def test_projections_equal_torchs():
    given, rest = made("lstm", layers=2, both=True, width=2)
    compared(
        "lstm", given, rest, lambda t, x, hx, params, *more: t.lstm(x, hx, params, *more, False)
    )


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("sizes", [[3, 2, 1], [3, 3], [3]], ids=str)
def test_packed_data_equals_torchs(op, sizes):
    given, rest = made(op, layers=2, both=True, batch=3)
    given[0] = to_torch(RNG.normal(size=(sum(sizes), 3)).astype(np.float32))

    def call(t, data, hx, params, *more):
        return getattr(t, op)(data, t.tensor(sizes), hx, params, *more)

    compared(op, given, rest, call)


@pytest.mark.parametrize("op", GATES)
def test_keywords_equal_torchs(op):
    words = "has_biases num_layers dropout train bidirectional".split()
    given, rest = made(op)

    def call(t, x, hx, params, *more):
        named = dict(zip(words, more, strict=True))
        return getattr(t, op)(input=x, hx=hx, params=params, batch_first=False, **named)

    def packed(t, x, hx, params, *more):
        named = dict(zip(words, more, strict=True))
        sizes = t.tensor([x.shape[1]] * x.shape[0])
        data = x.flatten(0, 1)
        return getattr(t, op)(data=data, batch_sizes=sizes, hx=hx, params=params, **named)

    compared(op, given, rest, call)
    compared(op, made(op)[0], rest, packed)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_layer_with_dropout_draws_the_same_numbers(kind):
    """In float64: two hands of one sum may run by different executors, and round differently."""
    layer = getattr(wend.nn, kind)(3, 5, 2, dropout=0.5).double()
    op = getattr(wend, "rnn_tanh" if kind == "RNN" else kind.lower())
    x, h = (wend.zeros(*shape, dtype=wend.float64) for shape in [(4, 2, 3), (2, 2, 5)])
    x.normal_()
    wend.manual_seed(5)
    expected = layer(x)[0]
    wend.manual_seed(5)
    hx = (h, h) if kind == "LSTM" else h
    output = op(x, hx, layer._flat_weights, True, 2, 0.5, True, False, False)[0]
    np.testing.assert_allclose(output.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
    still = op(x, hx, layer._flat_weights, True, 2, 0.5, False, False, False)[0]
    plain = layer.eval()(x)[0]
    np.testing.assert_allclose(still.detach().numpy(), plain.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_types_equal_torchs(dtype):
    given, rest = made("gru")
    theirs = torch.gru(
        *(
            [v.to(getattr(torch, dtype)) for v in part]
            if isinstance(part, list)
            else part.to(getattr(torch, dtype))
            for part in given
        ),
        *rest,
        False,
    )
    ours = [
        [v.to(getattr(wend, dtype)) for v in part]
        if isinstance(part, list)
        else part.to(getattr(wend, dtype))
        for part in to_wend(given)
    ]
    results = wend.gru(*ours, *rest, False)
    tolerance = 1e-9 if dtype == "float64" else 0.05
    for mine, expected in zip(results, theirs, strict=True):
        assert str(mine.dtype) == str(expected.dtype)
        np.testing.assert_allclose(
            mine.detach().float().numpy(), expected.detach().float().numpy(), atol=tolerance
        )


REFUSED = [
    ("params", lambda t, x, h, p: t.gru(x, h, p[:3], True, 1, 0.0, False, False, False)),
    ("2 layers", lambda t, x, h, p: t.gru(x, h, p, True, 2, 0.0, False, False, False)),
    ("state", lambda t, x, h, p: t.gru(x, h[:0], p, True, 1, 0.0, False, False, False)),
    ("state", lambda t, x, h, p: t.gru(x, h[:, :1], p, True, 1, 0.0, False, False, False)),
    ("input", lambda t, x, h, p: t.gru(x[0, 0], h, p, True, 1, 0.0, False, False, False)),
    ("features", lambda t, x, h, p: t.gru(x[:, :, :2], h, p, True, 1, 0.0, False, False, False)),
    ("length", lambda t, x, h, p: t.gru(x[:0], h, p, True, 1, 0.0, False, False, False)),
    ("float64", lambda t, x, h, p: t.gru(x.double(), h, p, True, 1, 0.0, False, False, False)),
    ("two hidden", lambda t, x, h, p: t.lstm(x, [h], p, True, 1, 0.0, False, False, False)),
    ("forms", lambda t, x, h, p: t.gru(x, h, p, True, 1, 0.0, False, False)),
    ("forms", lambda t, x, h, p: t.gru(x, h, p, True, 1, 0.0, False, False, False, 1)),
]


@pytest.mark.parametrize(("words", "call"), REFUSED)
def test_refused_as_by_torch(words, call):
    given, _ = made("gru")
    kinds = (RuntimeError, TypeError, IndexError, ValueError)
    with pytest.raises(kinds):
        call(torch, *given)
    with pytest.raises((RuntimeError, TypeError), match=words):
        call(wend, *to_wend(given))[0].sum().item()


def test_a_probability_beyond_1_is_refused():
    given, _ = made("gru")
    with pytest.raises(ValueError, match="dropout"):
        wend.gru(*to_wend(given), True, 1, 1.5, True, False, False)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_assigned_weights_are_computed_with(kind):
    """As meta-learners do: the layer's own parameters get no gradient, the tensors given do."""
    results = []
    for t in (torch, wend):
        layer = getattr(t.nn, kind)(3, 5, 2, bidirectional=True)
        rng = np.random.default_rng(1)
        given = []
        for p in layer.parameters():
            data = rng.normal(size=tuple(p.shape)).astype(np.float32) / 3
            given.append(t.tensor(data, requires_grad=True))
        own = layer.weight_hh_l1
        layer._flat_weights = [w * 2 for w in given]
        x = t.tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 2, 3))
        layer(x)[0].sin().sum().backward()
        assert all(p.grad is None for p in layer.parameters())
        assert layer.weight_hh_l1 is own
        results.append([w.grad for w in given])
        # A parameter that is set later makes all weights the layer's own again.
        for p in layer.parameters():
            p.data = t.full(p.shape, 0.1)
        layer.weight_hh_l1 = t.nn.Parameter(t.ones(*own.shape))
        results[-1].append(layer(x)[0].detach())
        assert layer._flat_weights[5 + 4] is layer.weight_hh_l1
    for mine, expected in zip(results[1], results[0], strict=True):
        same(mine, expected, kind, 1e-4)


def test_assigned_weights_must_be_as_many():
    layer = wend.nn.GRU(3, 5)
    with pytest.raises(ValueError, match=r"needs 4 tensors \(weight_ih_l0.*got 1"):
        layer._flat_weights = [layer.weight_ih_l0]
    # Names without an attribute read as None, as in PyTorch's own line for this.
    layer._flat_weights = [getattr(layer, n, None) for n in layer._flat_weights_names]
    assert layer._flat_weights == [
        layer.weight_ih_l0,
        layer.weight_hh_l0,
        *list(layer.parameters())[2:],
    ]
