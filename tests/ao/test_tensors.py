"""Quantised tensors, against PyTorch's."""

import copy
import io
import pickle

import numpy as np
import pytest

import wend
from wend.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def both(torch, make):
    """What a function of a package and of its tensor gives, by Wend and by PyTorch."""
    x = (RNG.normal(size=(3, 4, 6)) * 3).astype(np.float32)
    return make(wend, wend.from_numpy(x)), make(torch, torch.from_numpy(x))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["quint8", "qint8", "qint32"])
def test_per_tensor(torch, name):
    def make(t, x):
        return t.quantize_per_tensor(x, 0.07, 5, getattr(t, name))

    mine, theirs = both(torch, make)
    np.testing.assert_array_equal(mine.int_repr().numpy(), theirs.int_repr().numpy())
    np.testing.assert_array_equal(mine.dequantize().numpy(), theirs.dequantize().numpy())
    assert (mine.q_scale(), mine.q_zero_point()) == (theirs.q_scale(), theirs.q_zero_point())
    assert repr(mine) == repr(theirs)
    assert (str(mine.dtype), str(mine.qscheme())) == (str(theirs.dtype), str(theirs.qscheme()))
    assert mine.is_quantized and not wend.ones(2).is_quantized


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_per_channel(torch, axis):
    n = (3, 4, 6)[axis]
    scales, points = np.linspace(0.05, 0.2, n), np.arange(n)

    def make(t, x):
        given = t.from_numpy(scales), t.from_numpy(points)
        return t.quantize_per_channel(x, *given, axis, t.qint8)

    mine, theirs = both(torch, make)
    np.testing.assert_array_equal(mine.int_repr().numpy(), theirs.int_repr().numpy())
    np.testing.assert_array_equal(mine.dequantize().numpy(), theirs.dequantize().numpy())
    np.testing.assert_array_equal(
        mine.q_per_channel_scales().numpy(), theirs.q_per_channel_scales().numpy()
    )
    assert mine.q_per_channel_axis() == axis and repr(mine) == repr(theirs)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.relu(x),
        lambda t, x: x.reshape(4, 18),
        lambda t, x: x.transpose(0, 2),
        lambda t, x: x[1:, 2],
        lambda t, x: x.permute(2, 0, 1).contiguous(),
        lambda t, x: t.nn.functional.max_pool2d(x, 2),
        lambda t, x: t.flatten(x, 1),
        lambda t, x: x.clone(),
    ],
)
def test_ops_on_whole_numbers(torch, call):
    mine, theirs = both(torch, lambda t, x: call(t, t.quantize_per_tensor(x, 0.1, 30, t.quint8)))
    np.testing.assert_array_equal(mine.int_repr().numpy(), theirs.int_repr().numpy())
    assert mine.q_scale() == theirs.q_scale()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1),
        lambda t, x: t.nn.functional.avg_pool2d(x, 2),
        lambda t, x: t.mean(x, -1),
    ],
)
def test_ops_on_floats_are_rounded_within_a_step(torch, call):
    mine, theirs = both(torch, lambda t, x: call(t, t.quantize_per_tensor(x, 0.1, 30, t.quint8)))
    gap = np.abs(mine.int_repr().numpy().astype(int) - theirs.int_repr().numpy().astype(int))
    assert gap.max() <= 1


@pytest.mark.parametrize("channel", [False, True])
def test_fake_quantisation_and_its_gradient(torch, channel):
    x = (RNG.normal(size=(4, 5)) * 2).astype(np.float32)
    results = []
    for t in (wend, torch):
        leaf = t.from_numpy(x.copy()).requires_grad_()
        if channel:
            scale = t.from_numpy(np.linspace(0.1, 0.4, 5).astype(np.float32))
            zero = t.zeros(5, dtype=t.int32)
            y = t.fake_quantize_per_channel_affine(leaf, scale, zero, 1, -8, 7)
        else:
            y = t.fake_quantize_per_tensor_affine(leaf, 0.1, 3, 0, 20)
        (y * y).sum().backward()
        results.append((y.detach().numpy(), leaf.grad.numpy()))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_copies_and_pickles():
    x = wend.quantize_per_channel(
        wend.randn(2, 3), wend.tensor([0.1, 0.2]), wend.tensor([0, 0]), 0, wend.qint8
    )
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert repr(other) == repr(x)
    file = io.BytesIO()
    wend.save({"x": x, "dtype": wend.qint8}, file)
    file.seek(0)
    state = wend.load(file)
    assert repr(state["x"]) == repr(x) and state["dtype"] is wend.qint8


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_checkpoints_go_to_pytorch_and_back(torch):
    def make(t, x):
        one = t.quantize_per_tensor(x, 0.1, 3, t.quint8)
        scales, points = t.tensor([0.1, 0.2, 0.3]), t.tensor([0, 1, 2])
        return [one, t.quantize_per_channel(x, scales, points, 0, t.qint8)]

    for writer, reader in ((wend, torch), (torch, wend)):
        file = io.BytesIO()
        pair = dict(zip((wend, torch), both(torch, make), strict=True))
        writer.save(pair[writer], file)
        file.seek(0)
        for mine, theirs in zip(reader.load(file), pair[writer], strict=True):
            assert repr(mine) == repr(theirs)


def test_a_file_with_scales_that_do_not_fit_is_refused(torch):
    from wend.serialization._errors import CheckpointError
    from wend.serialization._meanings import rebuild_quantized

    with pytest.raises(CheckpointError, match="typed storage"):
        rebuild_quantized(None, 0, (1,), (1,), ())


def test_errors():
    x = wend.quantize_per_tensor(wend.ones(2), 0.1, 0, wend.quint8)
    with pytest.raises(NotImplementedInWend, match=r"add is not implemented for quantised .*dequ"):
        x + x
    with pytest.raises(ArgumentTypeError, match=r"torch\.int8 is no quantised type"):
        wend.quantize_per_tensor(wend.ones(2), 0.1, 0, wend.int8)
    with pytest.raises(ArgumentError, match=r"zero_point 300 is not in 0 \.\.\. 255"):
        wend.quantize_per_tensor(wend.ones(2), 0.1, 300, wend.quint8)
    with pytest.raises(ArgumentError, match="kPerChannelAffine"):
        x.q_per_channel_axis()
    with pytest.raises(ArgumentError, match="scales has 3 elements, and axis 0"):
        wend.quantize_per_channel(wend.ones(2), wend.ones(3), wend.zeros(3), 0, wend.qint8)
    with pytest.raises(ArgumentError, match="input is not quantised"):
        wend.int_repr(wend.ones(2))
