"""Layers against PyTorch's with equal weights: printing, results, gradients, states."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from side_by_side import compare  # noqa: E402

RNG = np.random.default_rng(0)


def x(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def ints(high, *shape):
    return RNG.integers(0, high, size=shape)


LAYERS = {
    "identity": (lambda t: t.nn.Identity(3, a=1), x(2, 3)),
    "linear": (lambda t: t.nn.Linear(4, 3), x(5, 4)),
    "linear without bias": (lambda t: t.nn.Linear(4, 3, bias=False), x(2, 5, 4)),
    "linear of a vector": (lambda t: t.nn.Linear(4, 3), x(4)),
    "linear in float64": (lambda t: t.nn.Linear(4, 3, dtype=t.float64), x(5, 4, dtype=np.float64)),
    "linear of nothing": (lambda t: t.nn.Linear(4, 3), x(0, 4)),
    "bilinear": (lambda t: t.nn.Bilinear(4, 3, 2), x(5, 4), x(5, 3)),
    "conv1d": (lambda t: t.nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), x(2, 4, 9)),
    "conv1d same": (lambda t: t.nn.Conv1d(4, 6, 4, padding="same", bias=False), x(2, 4, 9)),
    "conv1d circular": (
        lambda t: t.nn.Conv1d(2, 3, 3, padding=2, padding_mode="circular"),
        x(1, 2, 6),
    ),
    "conv1d unbatched": (lambda t: t.nn.Conv1d(4, 6, 3), x(4, 9)),
    "conv2d": (lambda t: t.nn.Conv2d(3, 4, 3, padding=1), x(2, 3, 7, 6)),
    "conv2d dilated": (
        lambda t: t.nn.Conv2d(4, 4, (3, 2), (2, 1), (1, 2), (2, 1), groups=4),
        x(2, 4, 9, 8),
    ),
    "conv2d reflected": (
        lambda t: t.nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect"),
        x(1, 2, 6, 5),
    ),
    "conv2d replicated same": (
        lambda t: t.nn.Conv2d(2, 3, 3, padding="same", padding_mode="replicate"),
        x(2, 6, 5),
    ),
    "conv transpose 1d": (
        lambda t: t.nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1),
        x(2, 4, 5),
    ),
    "conv transpose 2d": (
        lambda t: t.nn.ConvTranspose2d(4, 2, 3, 2, groups=2, dilation=2, bias=False),
        x(2, 4, 3, 4),
    ),
    "batch norm 1d": (lambda t: t.nn.BatchNorm1d(3), x(4, 3)),
    "batch norm of sequences": (lambda t: t.nn.BatchNorm1d(3, eps=1e-3, momentum=0.3), x(4, 3, 5)),
    "batch norm 2d": (lambda t: t.nn.BatchNorm2d(3), x(2, 3, 4, 4)),
    "batch norm, plain mean": (lambda t: t.nn.BatchNorm2d(3, momentum=None), x(2, 3, 4, 4)),
    "batch norm without affine": (lambda t: t.nn.BatchNorm2d(3, affine=False), x(2, 3, 4, 4)),
    "batch norm without statistics": (
        lambda t: t.nn.BatchNorm2d(3, track_running_stats=False),
        x(2, 3, 4, 4),
    ),
    "layer norm": (lambda t: t.nn.LayerNorm(5), x(2, 3, 5)),
    "layer norm of two dims": (lambda t: t.nn.LayerNorm([3, 5], eps=1e-3, bias=False), x(2, 3, 5)),
    "layer norm without affine": (lambda t: t.nn.LayerNorm((5,), elementwise_affine=False), x(5)),
    "rms norm": (lambda t: t.nn.RMSNorm(5), x(2, 3, 5)),
    "rms norm, eps": (
        lambda t: t.nn.RMSNorm([3, 5], eps=0.1, elementwise_affine=False),
        x(2, 3, 5),
    ),
    "group norm": (lambda t: t.nn.GroupNorm(2, 6), x(2, 6, 4)),
    "group norm without affine": (lambda t: t.nn.GroupNorm(3, 6, affine=False), x(2, 6, 3, 2)),
    "instance norm 1d": (lambda t: t.nn.InstanceNorm1d(3), x(2, 3, 5)),
    "instance norm 2d": (
        lambda t: t.nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
        x(2, 3, 4, 5),
    ),
    "instance norm unbatched": (lambda t: t.nn.InstanceNorm2d(3, affine=True), x(3, 4, 5)),
    "local response norm": (lambda t: t.nn.LocalResponseNorm(3, alpha=0.1), x(2, 6, 4, 3)),
    "max pool 1d": (lambda t: t.nn.MaxPool1d(3, stride=2), x(2, 3, 9)),
    "max pool 2d": (lambda t: t.nn.MaxPool2d(2), x(2, 3, 6, 7)),
    "max pool with indices": (
        lambda t: t.nn.MaxPool2d(3, 2, padding=1, return_indices=True),
        x(2, 3, 6, 7),
    ),
    "max pool, ceil": (lambda t: t.nn.MaxPool2d((3, 2), ceil_mode=True), x(3, 7, 7)),
    "average pool 1d": (lambda t: t.nn.AvgPool1d(3, 2, 1, count_include_pad=False), x(2, 3, 9)),
    "average pool 2d": (lambda t: t.nn.AvgPool2d(3, stride=2, padding=1), x(2, 3, 6, 7)),
    "average pool, divisor": (lambda t: t.nn.AvgPool2d((2, 3), divisor_override=5), x(2, 3, 6, 7)),
    "lp pool 1d": (lambda t: t.nn.LPPool1d(2, 3, stride=2), np.abs(x(2, 3, 9)) + 0.1),
    "lp pool 2d": (lambda t: t.nn.LPPool2d(3, 2), np.abs(x(2, 3, 6, 6)) + 0.1),
    "adaptive average 1d": (lambda t: t.nn.AdaptiveAvgPool1d(4), x(2, 3, 10)),
    "adaptive average 2d": (lambda t: t.nn.AdaptiveAvgPool2d((3, None)), x(2, 3, 7, 5)),
    "adaptive average to 1": (lambda t: t.nn.AdaptiveAvgPool2d(1), x(2, 3, 7, 5)),
    "adaptive max 1d": (lambda t: t.nn.AdaptiveMaxPool1d(4), x(2, 3, 10)),
    "adaptive max 2d": (
        lambda t: t.nn.AdaptiveMaxPool2d((3, 2), return_indices=True),
        x(2, 3, 7, 5),
    ),
    "dropout in evaluation": (lambda t: t.nn.Dropout(0.3).eval(), x(3, 4)),
    "embedding": (lambda t: t.nn.Embedding(7, 3), ints(7, 2, 4)),
    "embedding with padding": (lambda t: t.nn.Embedding(7, 3, padding_idx=2), ints(7, 2, 9)),
    "embedding by frequency": (
        lambda t: t.nn.Embedding(4, 3, scale_grad_by_freq=True),
        ints(4, 12),
    ),
    "embedding, norm": (lambda t: t.nn.Embedding(7, 3, max_norm=1.0), ints(7, 2, 4)),
    "embedding bag": (lambda t: t.nn.EmbeddingBag(7, 3), ints(7, 2, 4)),
    "embedding bag, sum": (
        lambda t: t.nn.EmbeddingBag(7, 3, mode="sum", padding_idx=1),
        ints(7, 9),
        np.array([0, 2, 2, 5]),
    ),
    "embedding bag, max": (
        lambda t: t.nn.EmbeddingBag(7, 3, mode="max"),
        ints(7, 9),
        np.array([0, 2, 5]),
    ),
    "flatten": (lambda t: t.nn.Flatten(), x(2, 3, 4)),
    "unflatten": (lambda t: t.nn.Unflatten(1, (2, 3)), x(2, 6, 4)),
    "pixel shuffle": (lambda t: t.nn.PixelShuffle(2), x(2, 8, 3, 4)),
    "pixel unshuffle": (lambda t: t.nn.PixelUnshuffle(2), x(2, 2, 6, 4)),
    "channel shuffle": (lambda t: t.nn.ChannelShuffle(3), x(2, 6, 4)),
    "unfold": (lambda t: t.nn.Unfold((2, 3), stride=2, padding=1), x(2, 3, 6, 7)),
    "fold": (lambda t: t.nn.Fold((4, 5), (2, 2)), x(2, 12, 12)),
    "upsample": (lambda t: t.nn.Upsample(scale_factor=2), x(2, 3, 4, 5)),
    "upsample bilinear": (
        lambda t: t.nn.Upsample(scale_factor=(1.5, 2), mode="bilinear"),
        x(2, 3, 4, 5),
    ),
    "upsample to a size": (
        lambda t: t.nn.Upsample(size=(7, 3), mode="bilinear", align_corners=True),
        x(2, 3, 4, 5),
    ),
    "upsample bicubic": (lambda t: t.nn.Upsample(scale_factor=2, mode="bicubic"), x(2, 3, 4, 5)),
    "upsample linear": (lambda t: t.nn.Upsample(scale_factor=2.5, mode="linear"), x(2, 3, 4)),
    "upsampling nearest": (lambda t: t.nn.UpsamplingNearest2d(scale_factor=2), x(1, 2, 3, 4)),
    "upsampling bilinear": (lambda t: t.nn.UpsamplingBilinear2d(size=(5, 6)), x(1, 2, 3, 4)),
    "constant pad": (lambda t: t.nn.ConstantPad1d((1, -1), 3.5), x(2, 3, 4)),
    "zero pad": (lambda t: t.nn.ZeroPad2d((1, 2, 0, 1)), x(2, 3, 4, 4)),
    "reflection pad": (lambda t: t.nn.ReflectionPad2d(2), x(2, 3, 4, 4)),
    "replication pad": (lambda t: t.nn.ReplicationPad1d((2, 1)), x(2, 3, 4)),
    "circular pad": (lambda t: t.nn.CircularPad2d((1, 2, 2, 0)), x(2, 3, 4, 4)),
    "cosine similarity": (lambda t: t.nn.CosineSimilarity(-1), x(4, 5), x(4, 5)),
    "pairwise distance": (lambda t: t.nn.PairwiseDistance(p=3, keepdim=True), x(4, 5), x(4, 5)),
    "sequential": (
        lambda t: t.nn.Sequential(t.nn.Linear(4, 8), t.nn.Tanh(), t.nn.Linear(8, 2)),
        x(3, 4),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_torchs(name):
    make, *inputs = LAYERS[name]
    compare(make, *inputs, train="evaluation" not in name)


@pytest.mark.parametrize("name", [n for n in LAYERS if "norm" in n])
def test_normalization_in_evaluation_equals_torchs(name):
    make, *inputs = LAYERS[name]
    compare(make, *inputs, train=False)


ACTIVATIONS = {
    "CELU": (),
    "ELU": (),
    "GELU": (),
    "GLU": (),
    "Hardshrink": (),
    "Hardsigmoid": (),
    "Hardswish": (),
    "Hardtanh": (-1.5, 0.5),
    "LeakyReLU": (0.2,),
    "LogSigmoid": (),
    "LogSoftmax": (-1,),
    "Mish": (),
    "PReLU": (4,),
    "ReLU": (),
    "ReLU6": (),
    "SELU": (),
    "SiLU": (),
    "Sigmoid": (),
    "Softmax": (1,),
    "Softmin": (0,),
    "Softplus": (2, 1),
    "Softshrink": (),
    "Softsign": (),
    "Tanh": (),
    "Tanhshrink": (),
    "Threshold": (0.1, 7),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_equals_torchs(name):
    compare(lambda t: getattr(t.nn, name)(*ACTIVATIONS[name]), x(3, 4, 2) * 3)


@pytest.mark.parametrize("name", ["ReLU", "ELU", "LeakyReLU", "Hardtanh", "SiLU", "ReLU6", "CELU"])
def test_activation_overwrites_its_input(name):
    import wend

    values = x(3, 4)
    data = wend.tensor(values)
    result = getattr(wend.nn, name)(inplace=True)(data)
    assert result is data
    theirs = getattr(torch.nn, name)(inplace=True)(torch.tensor(values))
    np.testing.assert_allclose(data.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_gelu_by_tanh_equals_torchs():
    compare(lambda t: t.nn.GELU(approximate="tanh"), x(3, 4))


def test_softmax2d_equals_torchs():
    compare(lambda t: t.nn.Softmax2d(), x(2, 3, 2, 2))


def test_rrelu_in_evaluation_equals_torchs():
    compare(lambda t: t.nn.RReLU(), x(3, 4), train=False)


LAYERS_3D = {
    "conv3d": (lambda t: t.nn.Conv3d(2, 3, 2, padding=1), x(1, 2, 3, 4, 3)),
    "conv transpose 3d": (lambda t: t.nn.ConvTranspose3d(2, 3, 2, stride=2), x(1, 2, 2, 3, 2)),
    "batch norm 3d": (lambda t: t.nn.BatchNorm3d(2), x(2, 2, 2, 3, 2)),
    "instance norm 3d": (lambda t: t.nn.InstanceNorm3d(2), x(2, 2, 2, 3, 2)),
    "max pool 3d": (lambda t: t.nn.MaxPool3d(2), x(1, 2, 4, 4, 4)),
    "average pool 3d": (lambda t: t.nn.AvgPool3d(2, 1), x(1, 2, 3, 4, 3)),
    "adaptive max 3d": (lambda t: t.nn.AdaptiveMaxPool3d(2), x(1, 2, 4, 5, 4)),
    "adaptive average 3d": (lambda t: t.nn.AdaptiveAvgPool3d((1, 2, 2)), x(1, 2, 4, 5, 4)),
    "replication pad 3d": (lambda t: t.nn.ReplicationPad3d(1), x(1, 2, 2, 2, 2)),
}


@pytest.mark.parametrize("name", LAYERS_3D)
def test_layer_over_three_dims_equals_torchs(name):
    make, *inputs = LAYERS_3D[name]
    compare(make, *inputs)


def test_unpooling_puts_maxima_back():
    import wend

    values = x(2, 3, 6, 7)
    results = []
    for t in (torch, wend):
        pooled, indices = t.nn.MaxPool2d(2, return_indices=True)(t.tensor(values))
        results.append(t.nn.MaxUnpool2d(2)(pooled, indices, output_size=(6, 7)).numpy())
    np.testing.assert_array_equal(*results)
