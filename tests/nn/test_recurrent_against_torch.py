"""Recurrent layers, cells and packed sequences against PyTorch's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from side_by_side import (  # noqa: E402
    backward,
    compare,
    pair,
    same,
    same_gradients,
    to_torch,
    to_wend,
)

import wend  # noqa: E402

RNG = np.random.default_rng(0)


def x(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_layers": 2, "bidirectional": True},
        {"batch_first": True, "bias": False},
        {"num_layers": 3, "batch_first": True, "bidirectional": True},
    ],
    ids=str,
)
def test_layers_equal_torchs(kind, settings):
    compare(lambda t: getattr(t.nn, kind)(3, 4, **settings), x(5, 2, 3))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_unbatched_input_equals_torchs(kind):
    compare(lambda t: getattr(t.nn, kind)(3, 4, bidirectional=True), x(5, 3))


def test_given_state_equals_torchs():
    compare(lambda t: t.nn.LSTM(3, 4, 2), x(5, 2, 3), (x(2, 2, 4), x(2, 2, 4)))
    compare(lambda t: t.nn.GRU(3, 4), x(5, 3), x(1, 4))


def test_projection_equals_torchs():
    compare(
        lambda t: t.nn.LSTM(3, 5, 2, proj_size=2, bidirectional=True, batch_first=True), x(4, 2, 3)
    )


def test_relu_network_equals_torchs():
    compare(lambda t: t.nn.RNN(3, 4, nonlinearity="relu"), x(5, 2, 3))
    compare(lambda t: t.nn.RNN(3, 4, 2, "relu"), x(5, 2, 3))


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells_equal_torchs(kind):
    state = (x(2, 4), x(2, 4)) if kind == "LSTMCell" else x(2, 4)
    compare(lambda t: getattr(t.nn, kind)(3, 4), x(2, 3), state)
    compare(lambda t: getattr(t.nn, kind)(3, 4, bias=False), x(2, 3))
    compare(lambda t: getattr(t.nn, kind)(3, 4), x(3))


def run_packed(t, module, data, lengths, enforce_sorted, convert):
    packed = t.nn.utils.rnn.pack_padded_sequence(
        data, convert(lengths), batch_first=True, enforce_sorted=enforce_sorted
    )
    output, state = module(packed)
    padded, sizes = t.nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
    return padded, sizes, state


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [2, 5, 1, 4], [4, 4, 4, 4]], ids=str)
def test_packed_sequences_equal_torchs(kind, lengths):
    theirs, ours = pair(
        lambda t: getattr(t.nn, kind)(3, 4, 2, batch_first=True, bidirectional=True)
    )
    data = to_torch(x(4, 5, 3))
    mine = to_wend(data)
    a = run_packed(torch, theirs, data, lengths, False, torch.tensor)
    b = run_packed(wend, ours, mine, lengths, False, wend.tensor)
    same(b[0], a[0], "output")
    assert b[1].tolist() == a[1].tolist() == lengths
    their_state = list(a[2]) if kind == "LSTM" else [a[2]]
    our_state = list(b[2]) if kind == "LSTM" else [b[2]]
    for p, q in zip(our_state, their_state, strict=True):
        same(p, q, "state")
    backward([a[0], *their_state], [b[0], *our_state])
    named = dict(ours.named_parameters())
    same_gradients((name, named[name], q) for name, q in theirs.named_parameters())
    same_gradients([("input", mine, data)])


def test_packing_equals_torchs():
    parts = [x(n, 2) for n in (4, 2, 2, 1)]
    theirs = torch.nn.utils.rnn.pack_sequence([torch.tensor(p) for p in parts])
    ours = wend.nn.utils.rnn.pack_sequence([wend.tensor(p) for p in parts])
    same(ours.data, theirs.data, "data")
    assert ours.batch_sizes.tolist() == theirs.batch_sizes.tolist() == [4, 3, 1, 1]
    back = wend.nn.utils.rnn.unpack_sequence(ours)
    for part, again in zip(parts, back, strict=True):
        np.testing.assert_array_equal(part, again.numpy())


def test_packing_sequences_of_any_order_equals_torchs():
    parts = [x(n, 2) for n in (2, 4, 1, 2)]
    packs = []
    for t in (torch, wend):
        leaves = [t.tensor(p, requires_grad=True) for p in parts]
        packed = t.nn.utils.rnn.pack_sequence(leaves, enforce_sorted=False)
        (packed.data * t.arange(9.0)[:, None]).sum().backward()
        packs.append((packed, leaves))
    (theirs, their_leaves), (ours, our_leaves) = packs
    same(ours.data, theirs.data, "data")
    for mine, their in zip(ours[1:], theirs[1:], strict=True):
        assert mine.tolist() == their.tolist()
    for mine, their in zip(our_leaves, their_leaves, strict=True):
        same(mine.grad, their.grad, "gradient")


def test_packing_refuses_as_torch_does():
    pack = wend.nn.utils.rnn.pack_sequence
    with pytest.raises(RuntimeError, match="received an empty list of sequences"):
        pack([])
    with pytest.raises(RuntimeError, match="has to be greater than 0"):
        pack([wend.ones(2, 1), wend.ones(0, 1)])
    with pytest.raises(RuntimeError, match="sorted in decreasing order"):
        pack([wend.ones(1, 1), wend.ones(2, 1)])


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_sequences_equals_torchs(side):
    parts = [x(n, 2) for n in (2, 4, 1)]
    for batch_first in (False, True):
        a, b = (
            t.nn.utils.rnn.pad_sequence(
                [t.tensor(p) for p in parts], batch_first, padding_value=7.0, padding_side=side
            )
            for t in (torch, wend)
        )
        same(b, a, "padded")


def test_padding_to_a_length_equals_torchs():
    for t in (torch, wend):
        packed = t.nn.utils.rnn.pack_sequence([t.ones(2, 1), t.ones(1, 1)])
        padded, lengths = t.nn.utils.rnn.pad_packed_sequence(
            packed, padding_value=-1.0, total_length=4
        )
        assert padded.squeeze(-1).tolist() == [[1, 1], [1, -1], [-1, -1], [-1, -1]]
        assert lengths.tolist() == [2, 1]
        with pytest.raises(ValueError, match="total_length to be at least"):
            t.nn.utils.rnn.pad_packed_sequence(packed, total_length=1)


def test_unsorted_lengths_raise_as_torch_does():
    with pytest.raises(RuntimeError, match="sorted in decreasing order"):
        wend.nn.utils.rnn.pack_padded_sequence(wend.ones(3, 2, 1), [1, 3])
    with pytest.raises(RuntimeError, match="greater than 0"):
        wend.nn.utils.rnn.pack_padded_sequence(wend.ones(3, 2, 1), [3, 0])


def test_dropout_between_layers_only_in_training():
    wend.manual_seed(0)
    lstm = wend.nn.LSTM(3, 4, 2, dropout=0.5)
    data = wend.tensor(x(6, 2, 3))
    first, second = lstm(data)[0], lstm(data)[0]
    assert not wend.equal(first, second)
    lstm.eval()
    assert wend.equal(lstm(data)[0], lstm(data)[0])


@pytest.mark.parametrize(
    ("make", "call", "error", "message"),
    [
        (
            lambda: wend.nn.LSTM(3, 4),
            lambda m: m(wend.ones(2, 5, 7)),
            RuntimeError,
            "Expected 3, got 7",
        ),
        (lambda: wend.nn.LSTM(3, 4), lambda m: m(wend.ones(3)), ValueError, "2D or 3D, got 1D"),
        (
            lambda: wend.nn.GRU(3, 4),
            lambda m: m(wend.ones(2, 5, 3), wend.ones(1, 2, 4)),
            RuntimeError,
            r"Expected hidden size \(1, 5, 4\), got \[1, 2, 4\]",
        ),
        (
            lambda: wend.nn.LSTM(3, 4),
            lambda m: m(wend.ones(5, 3), (wend.ones(1, 2, 4), wend.ones(1, 2, 4))),
            RuntimeError,
            "unbatched 2-D input",
        ),
        (lambda: wend.nn.LSTM(3, 4, proj_size=4), None, ValueError, "smaller than hidden_size"),
        (lambda: wend.nn.GRU(3, 4, proj_size=2), None, ValueError, "only supported for LSTM"),
        (lambda: wend.nn.RNN(3, 4, nonlinearity="sin"), None, ValueError, "Unknown nonlinearity"),
        (lambda: wend.nn.LSTM(3, 0), None, ValueError, "greater than zero"),
    ],
)
def test_bad_input_raises(make, call, error, message):
    with pytest.raises(error, match=message):
        module = make()
        call(module)
