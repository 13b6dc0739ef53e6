"""Strides of results of ops whose operands lie with the channels innermost, against PyTorch's."""

import pytest

import wend

torch = pytest.importorskip("torch")


def functions(X):
    return X.nn.functional


def spatial(x):
    return (1, 1) * (x.dim() - 2)


ANY_RANK = {
    "relu": lambda X, x: X.relu(x),
    "add": lambda X, x: x + x,
    "add number": lambda X, x: x + 1,
    "number minus": lambda X, x: 1 - x,
    "add row-major": lambda X, x: x + X.ones(*x.shape),
    "row-major add": lambda X, x: X.ones(*x.shape) + x,
    "add per channel": lambda X, x: x + X.ones(1, x.shape[1], *[1] * (x.dim() - 2)),
    "per channel add": lambda X, x: X.ones(1, x.shape[1], *[1] * (x.dim() - 2)) + x,
    "div by sums": lambda X, x: x / x.sum(1, keepdim=True),
    "compare": lambda X, x: x > 0,
    "where": lambda X, x: X.where(x > 0, x, 0.0),
    "double": lambda X, x: x.double(),
    "bfloat16": lambda X, x: x.bfloat16(),
    "copy": lambda X, x: x.to(X.float32, copy=True),
    "clamp": lambda X, x: x.clamp(0, 1),
    "lerp": lambda X, x: X.lerp(x, x, 0.5),
    "gelu": lambda X, x: functions(X).gelu(x),
    "silu": lambda X, x: functions(X).silu(x),
    "hardswish": lambda X, x: functions(X).hardswish(x),
    "relu6": lambda X, x: functions(X).relu6(x),
    "prelu": lambda X, x: functions(X).prelu(x, X.ones(x.shape[1])),
    "logsigmoid": lambda X, x: functions(X).logsigmoid(x),
    "glu": lambda X, x: functions(X).glu(x, 1),
    "dropout": lambda X, x: functions(X).dropout(x),
    "dropout2d": lambda X, x: functions(X).dropout2d(x),
    "in place": lambda X, x: x.clone().add_(1).relu_(),
    "clone": lambda X, x: x.clone(),
    "detach": lambda X, x: x.detach() * 2,
    "contiguous": lambda X, x: x.contiguous(),
    "clone row-major": lambda X, x: x.clone(memory_format=X.contiguous_format),
    "empty_like": lambda X, x: X.empty_like(x),
    "zeros_like": lambda X, x: X.zeros_like(x),
    "full_like": lambda X, x: X.full_like(x, 2),
    "ones_like double": lambda X, x: X.ones_like(x, dtype=X.float64),
    "rand_like": lambda X, x: X.rand_like(x),
    "zeros_like row-major": lambda X, x: X.zeros_like(x, memory_format=X.contiguous_format),
    "new_zeros": lambda X, x: x.new_zeros(x.shape),
    "cat 0": lambda X, x: X.cat([x, x], 0),
    "cat 1": lambda X, x: X.cat([x, x], 1),
    "cat with row-major": lambda X, x: X.cat([x, X.ones(*x.shape)], 1),
    "chunk": lambda X, x: X.chunk(x, 2, 1)[0] + 1,
    "slice": lambda X, x: x[:, :, :2] + 1,
    "select": lambda X, x: x[0] + 1,
    "transpose": lambda X, x: x.transpose(1, -1) + 1,
    "unsqueeze": lambda X, x: x.unsqueeze(0) + 1,
    "index 0": lambda X, x: x[X.tensor([0, 0])],
    "index 1": lambda X, x: x[:, X.tensor([0, 1])],
    "index 2": lambda X, x: x[:, :, X.tensor([0, 1])],
    "index_select": lambda X, x: x.index_select(1, X.tensor([0, 1])),
    "pad": lambda X, x: functions(X).pad(x, (1, 1)),
    "pad reflect": lambda X, x: functions(X).pad(x, spatial(x), mode="reflect"),
    "pad replicate": lambda X, x: functions(X).pad(x, spatial(x), mode="replicate"),
    "pad circular": lambda X, x: functions(X).pad(x, spatial(x), mode="circular"),
    "flip": lambda X, x: x.flip(1),
    "roll": lambda X, x: x.roll(1, 2),
    "sort": lambda X, x: x.sort(1)[0],
    "softmax": lambda X, x: x.softmax(1),
    "cumsum": lambda X, x: x.cumsum(1),
    "masked_fill": lambda X, x: x.masked_fill(x > 0, 1.0),
    "mean": lambda X, x: x.mean((2, 3), keepdim=True),
    "normalize": lambda X, x: functions(X).normalize(x),
    "batch_norm": lambda X, x: functions(X).batch_norm(x, None, None, training=True),
    "batch_norm eval": lambda X, x: functions(X).batch_norm(
        x, X.zeros(x.shape[1]), X.ones(x.shape[1])
    ),
    "group_norm": lambda X, x: functions(X).group_norm(x, 2),
    "instance_norm": lambda X, x: functions(X).instance_norm(x),
    "layer_norm": lambda X, x: functions(X).layer_norm(x, x.shape[1:]),
    "losses": lambda X, x: functions(X).mse_loss(x, x, reduction="none"),
    "flatten": lambda X, x: x.flatten(1),
    "matmul": lambda X, x: x @ X.ones(x.shape[-1], 3),
    "nearest": lambda X, x: functions(X).interpolate(x, scale_factor=2),
}
IMAGES = {
    "conv": lambda X, x: functions(X).conv2d(x, X.ones(6, x.shape[1], 3, 3)),
    "conv 1x1": lambda X, x: functions(X).conv2d(x, X.ones(6, x.shape[1], 1, 1), X.ones(6)),
    "conv in groups": lambda X, x: functions(X).conv2d(
        x, X.ones(x.shape[1], 1, 3, 3), stride=2, padding=1, groups=x.shape[1]
    ),
    "conv by weight": lambda X, x: functions(X).conv2d(
        x.contiguous(), X.ones(6, x.shape[1], 3, 3).to(memory_format=X.channels_last)
    ),
    "conv transposed": lambda X, x: functions(X).conv_transpose2d(x, X.ones(x.shape[1], 6, 3, 3)),
    "max_pool": lambda X, x: functions(X).max_pool2d(x, 2),
    "max_pool indices": lambda X, x: functions(X).max_pool2d(x, 2, return_indices=True)[1],
    "max_unpool": lambda X, x: functions(X).max_unpool2d(
        *functions(X).max_pool2d(x, 2, return_indices=True), 2
    ),
    "avg_pool": lambda X, x: functions(X).avg_pool2d(x, 2),
    "adaptive": lambda X, x: functions(X).adaptive_avg_pool2d(x, 2),
    "adaptive 1": lambda X, x: functions(X).adaptive_avg_pool2d(x, 1),
    "adaptive max": lambda X, x: functions(X).adaptive_max_pool2d(x, 2),
    "lp_pool": lambda X, x: functions(X).lp_pool2d(x, 2, 2),
    "bilinear": lambda X, x: functions(X).interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda X, x: functions(X).interpolate(x, scale_factor=2, mode="bicubic"),
    "area": lambda X, x: functions(X).interpolate(x, size=(2, 2), mode="area"),
    "pixel_shuffle": lambda X, x: functions(X).pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda X, x: functions(X).pixel_unshuffle(x, 2),
    "channel_shuffle": lambda X, x: functions(X).channel_shuffle(x, 2),
    "grid_sample": lambda X, x: functions(X).grid_sample(x, X.zeros(x.shape[0], 3, 3, 2)),
    "empty": lambda X, x: X.empty(x.shape, memory_format=X.channels_last),
    "layers": lambda X, x: X.nn.Sequential(
        X.nn.Conv2d(x.shape[1], 8, 3, padding=1),
        X.nn.BatchNorm2d(8),
        X.nn.ReLU(inplace=True),
        X.nn.MaxPool2d(2),
    )(x),
    "model of that format": lambda X, x: X.nn.Sequential(
        X.nn.Conv2d(x.shape[1], 8, 3, padding=1), X.nn.BatchNorm2d(8), X.nn.ReLU()
    ).to(memory_format=X.channels_last)(x.contiguous()),
}
VOLUMES = {
    "conv": lambda X, x: functions(X).conv3d(x, X.ones(6, x.shape[1], 3, 3, 3)),
    "max_pool": lambda X, x: functions(X).max_pool3d(x, 2),
    "avg_pool": lambda X, x: functions(X).avg_pool3d(x, 2),
    "adaptive": lambda X, x: functions(X).adaptive_avg_pool3d(x, 2),
    "trilinear": lambda X, x: functions(X).interpolate(x, scale_factor=2, mode="trilinear"),
}
CASES = [
    *((op, shape) for op in ANY_RANK for shape in ((2, 4, 6, 6), (1, 4, 6, 6), (2, 4, 4, 6, 6))),
    *((op, shape) for op in IMAGES for shape in ((2, 4, 6, 6), (1, 4, 6, 6))),
    *((op, (2, 4, 4, 6, 6)) for op in VOLUMES),
]


def result(library, op, shape, grad):
    library.manual_seed(0)
    images = len(shape) == 4
    x = library.randn(*shape, requires_grad=grad)
    x = x.to(memory_format=library.channels_last if images else library.channels_last_3d)
    table = IMAGES if images and op in IMAGES else VOLUMES if op in VOLUMES else ANY_RANK
    return table[op](library, x)


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize(("op", "shape"), CASES, ids=str)
def test_strides_are_pytorchs(op, shape, grad):
    want, have = (result(library, op, shape, grad) for library in (torch, wend))
    assert tuple(have.shape) == tuple(want.shape)
    assert have.stride() == want.stride()
    assert have.is_contiguous() == want.is_contiguous()
    for name in ("channels_last", "channels_last_3d"):
        asked = [
            y.is_contiguous(memory_format=getattr(library, name))
            for library, y in ((torch, want), (wend, have))
        ]
        assert asked[0] == asked[1]


@pytest.mark.parametrize("dims", [(1, 0), (2, 0, 1), (1, 2, 0), (0, 2, 1)], ids=str)
@pytest.mark.parametrize("op", ["add", "mul"])
def test_other_orders_of_arrays_go_on(op, dims):
    import numpy as np

    array = np.arange(24.0).reshape((4, 6) if len(dims) == 2 else (2, 3, 4)).transpose(dims)
    want, have = (
        getattr(x, op)(x) for x in (library.from_numpy(array) for library in (torch, wend))
    )
    assert have.stride() == want.stride()
    assert have.tolist() == want.tolist()


def test_values_views_and_arrays_of_results():
    x = wend.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=wend.channels_last)
    y = x * 2
    assert y.tolist() == (wend.arange(24.0).reshape(1, 2, 3, 4) * 2).tolist()
    assert y.numpy().strides == (96, 4, 32, 8)
    with pytest.raises(RuntimeError, match=r"Use \.reshape"):
        (x + 1).view(-1)
    z = x + 1
    part = z[:, :1]
    part.zero_()
    assert z[:, 0].sum() == 0 and z[:, 1].sum() > 0
    z.mul_(3)
    assert z.stride() == x.stride()
    assert z.permute(0, 2, 3, 1).view(-1)[1] == 39


@pytest.mark.parametrize("kind", ["weight", "leaf", "deepcopy", "parameter", "loaded"])
def test_parameters_and_gradients_keep_the_order(kind):
    import copy

    def strides(library):
        layer = library.nn.Conv2d(3, 4, 3).to(memory_format=library.channels_last)
        x = library.ones(2, 3, 6, 6).to(memory_format=library.channels_last).requires_grad_()
        if kind == "deepcopy":
            layer = copy.deepcopy(layer)
        if kind == "parameter":
            layer.weight = library.nn.Parameter(layer.weight.detach() * 2)
        if kind == "loaded":
            layer.load_state_dict(library.nn.Conv2d(3, 4, 3).state_dict())
        layer(x).sum().backward()
        grad = x.grad if kind == "leaf" else layer.weight.grad
        return grad.stride(), layer.weight.stride(), layer.bias.grad.stride()

    assert strides(wend) == strides(torch)


def test_results_of_several_threads():
    import threading

    strides = []

    def work():
        x = wend.zeros(2, 3, 4, 4).to(memory_format=wend.channels_last)
        strides.append((wend.relu(x) + 1).stride())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert strides == [(48, 1, 12, 3)] * 3
