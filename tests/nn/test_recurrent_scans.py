"""Recurrent layers as ops over all steps: whole trainings, derivatives of derivatives, batches."""

import numpy as np
import pytest

import wend
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.core.primitive import ops
from wend.func import functional_call, grad, hessian, jvp, stack_module_state, vmap

nn = wend.nn
KINDS = ("LSTM", "GRU", "RNN")
#: Settings of layers, and whether sequences are packed.
FORMS = [
    ({}, False),
    ({"num_layers": 2, "bidirectional": True, "batch_first": True}, False),
    ({"bias": False}, True),
    ({"num_layers": 2, "bidirectional": True}, True),
]


@pytest.fixture(params=["reference", "machine code"])
def by(request, own_trie):
    code = request.param == "machine code"
    with config.override(compile=code, wait=code):
        yield


def batches(rng, count, batch_first):
    """(words, lengths) of batches: other sizes each time."""
    for _ in range(count):
        steps, size = rng.integers(1, 9), rng.integers(1, 5)
        words = rng.normal(size=(steps, size, 3)).astype(np.float32)
        lengths = rng.integers(1, steps + 1, size)
        lengths[0] = steps
        yield words.swapaxes(0, 1).copy() if batch_first else words, lengths


def trained(t, make, state, settings, packed, given):
    """Losses and weights of some steps."""
    layer = make(t)
    layer.load_state_dict({name: t.tensor(a) for name, a in state.items()})
    optimizer = t.optim.Adam(layer.parameters(), lr=0.01)
    losses = []
    for words, lengths in given:
        data = t.tensor(words)
        if packed:
            data = t.nn.utils.rnn.pack_padded_sequence(
                data, t.tensor(lengths), settings.get("batch_first", False), enforce_sorted=False
            )
        output, last = layer(data)
        output = output.data if packed else output
        parts = [output, *(last if isinstance(last, tuple) else (last,))]
        loss = sum((part**2).mean() + part.sum() * 0.1 for part in parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: w.detach().numpy().copy() for name, w in layer.named_parameters()}


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize(("settings", "packed"), FORMS, ids=str)
@pytest.mark.parametrize("kind", [*KINDS, "relu"])
def test_trainings_equal_torchs(kind, settings, packed):
    torch = pytest.importorskip("torch")
    if kind == "relu":
        kind, settings = "RNN", {**settings, "nonlinearity": "relu"}

    def make(t):
        return getattr(t.nn, kind)(3, 5, **settings)

    torch.manual_seed(0)
    state = {name: w.detach().numpy() for name, w in make(torch).state_dict().items()}
    given = list(batches(np.random.default_rng(1), 6, settings.get("batch_first", False)))
    mine, ours = trained(wend, make, state, settings, packed, given)
    losses, theirs = trained(torch, make, state, settings, packed, given)
    np.testing.assert_allclose(mine, losses, rtol=2e-5, atol=2e-6)
    for name, weight in theirs.items():
        np.testing.assert_allclose(ours[name], weight, rtol=2e-4, atol=2e-5, err_msg=name)


def double(kind, *shape, **settings):
    """A layer and its input, of float64."""
    wend.manual_seed(3)
    return getattr(nn, kind)(3, 4, **settings).double(), wend.randn(*shape, dtype=wend.float64)


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_derivatives(kind):
    layer, x = double(kind, 3, 2, 3, bidirectional=True)
    assert wend.autograd.gradgradcheck(layer, (x.requires_grad_(),))
    weights = dict(layer.named_parameters())
    lengths = wend.tensor([3, 2])

    def of_weights(w, v, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        names = {**weights, "weight_hh_l0": w, "weight_ih_l0_reverse": v}
        output, last = functional_call(layer, names, (packed,))
        return (output.data, *(last if isinstance(last, tuple) else (last,)))

    leaves = [weights[name].detach() for name in ("weight_hh_l0", "weight_ih_l0_reverse")]
    operands = [leaf.clone().requires_grad_() for leaf in leaves] + [x]
    assert wend.autograd.gradcheck(of_weights, operands)
    assert wend.autograd.gradgradcheck(of_weights, operands)


@pytest.mark.parametrize("kind", KINDS)
def test_transforms_of_functions(kind):
    layer, x = double(kind, 2, 1, 3, num_layers=2)
    slope = wend.randn(2, 1, 3, dtype=wend.float64)

    def total(x):
        return (layer(x)[0] ** 3).sum()

    (direct,) = wend.autograd.grad(total(y := x.clone().requires_grad_()), y, create_graph=True)
    np.testing.assert_allclose(jvp(total, (x,), (slope,))[1].item(), (direct * slope).sum().item())
    rows = [wend.autograd.grad(g, y, retain_graph=True)[0] for g in direct.reshape(-1)]
    np.testing.assert_allclose(
        hessian(total)(x).detach().reshape(6, 6).numpy(),
        wend.stack(rows).detach().reshape(6, 6).numpy(),
        atol=1e-12,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_examples_and_a_batch_of_layers(kind):
    layer, x = double(kind, 4, 3, 3, bidirectional=True)
    weights = dict(layer.named_parameters())

    def loss(weights, x):
        return (functional_call(layer, weights, (x,))[0] ** 2).sum()

    def equal(a, b):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-12)

    for steps in (4, 2):  # other sizes take the same rules
        each = vmap(grad(loss), (None, 1))(weights, x[:steps])
        singles = [grad(loss)(weights, x[:steps, i]) for i in range(3)]
        for name in weights:
            equal(each[name], wend.stack([single[name] for single in singles]))
    layers = [getattr(nn, kind)(3, 4, bidirectional=True).double() for _ in range(3)]
    stacked, _ = stack_module_state(layers)
    for steps in (4, 2):
        each = vmap(grad(loss), (0, None))(stacked, x[:steps])
        singles = [grad(loss)(dict(one.named_parameters()), x[:steps]) for one in layers]
        for name in weights:
            equal(each[name], wend.stack([single[name] for single in singles]))
    both = vmap(lambda w, x: functional_call(layer, w, (x,))[0])(stacked, x.movedim(1, 0))
    equal(both, wend.stack([one(x[:, i])[0] for i, one in enumerate(layers)]))


def test_calls_of_batched_with_other_lengths():
    layer, x = double("LSTM", 5, 3)
    parts = [x[:n] for n in (5, 2, 4, 2)]
    got = wend.batched(lambda part: layer(part)[0].sum())(parts)
    for part, total in zip(parts, got, strict=True):
        np.testing.assert_allclose(total.item(), layer(part)[0].sum().item())


@pytest.mark.parametrize("packed", [False, True])
def test_all_lengths_share_a_path(own_trie, packed):
    layer = nn.GRU(3, 4, bidirectional=True)

    def states(steps):
        x = wend.ones(steps, 2, 3)
        if packed:
            x = nn.utils.rnn.pack_padded_sequence(x, wend.tensor([steps, 1]))
        output = layer(x)[0]
        loss = (output.data if packed else output).sum()
        found = list(_hot.current_trace().states)
        loss.backward()
        loss.item()
        return found

    states(4)
    first, second = states(5), states(9)
    assert len(first) < 40
    assert [id(s) for s in first] == [id(s) for s in second]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_halves_equal_torchs(kind, dtype):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(3, 4, bidirectional=True)
    ours = getattr(nn, kind)(3, 4, bidirectional=True)
    ours.load_state_dict({k: wend.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).normal(size=(6, 2, 3)).astype(np.float32)
    got = ours.to(getattr(wend, dtype))(wend.tensor(x).to(getattr(wend, dtype)))[0]
    want = theirs.to(getattr(torch, dtype))(torch.tensor(x).to(getattr(torch, dtype)))[0]
    assert str(got.dtype) == f"torch.{dtype}"
    bound = 4e-3 if dtype == "float16" else 3e-2
    np.testing.assert_allclose(
        got.float().detach().numpy(), want.float().detach().numpy(), rtol=bound, atol=bound
    )


def test_an_empty_batch():
    layer = nn.LSTM(3, 4)
    output, (h, c) = layer(wend.ones(5, 0, 3))
    assert output.shape == (5, 0, 4)
    assert h.shape == c.shape == (1, 0, 4)
    output.sum().backward()
    assert not layer.weight_hh_l0.grad.any()


def test_weights_of_another_type_are_refused_by_name():
    layer = nn.LSTM(3, 4)
    layer.weight_hh_l0 = nn.Parameter(layer.weight_hh_l0.detach().double())
    with pytest.raises(wend.errors.DTypeError, match=r"lstm_scan: an operand is torch\.float64"):
        layer(wend.ones(2, 1, 3))


def test_a_weight_of_another_shape_is_refused_by_name():
    x, weight, state = wend.ones(4, 8), wend.ones(8, 3), wend.ones(2, 2)
    with pytest.raises(wend.errors.ShapeError, match=r"lstm_scan: operands of shapes .*J = 4 H"):
        ops.lstm_scan(x, weight, state, state, wend.tensor([2, 2]))
