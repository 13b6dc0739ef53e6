"""Convolution and its transpose: geometry, types, every gradient, and what is refused."""

import itertools

import numpy as np
import pytest
from against import check, refuses

import wend
from wend._engine.base.errors import DTypeError, ShapeError

RNG = np.random.default_rng(0)


def normal(*shapes):
    return [RNG.normal(size=shape) for shape in shapes]


# Every third of all combinations of stride, padding, dilation, groups and kernel.
GEOMETRIES = list(itertools.product((1, 2, 3), (0, 1, 2), (1, 2), (1, 2), (1, 2, 3)))[::3]


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize(("stride", "padding", "dilation", "groups", "kernel"), GEOMETRIES)
def test_geometries(nd, stride, padding, dilation, groups, kernel):
    size = (7, 6, 5)[:nd]
    x, w, b = normal((2, 4, *size), (6, 4 // groups, *(kernel,) * nd), (6,))
    check(
        lambda ns, x, w, b: getattr(ns.torch, f"conv{nd}d")(
            x, w, b, stride, padding, dilation, groups
        ),
        x, w, b,
    )  # fmt: skip
    x, w, b = normal((2, 4, *size), (4, 3, *(kernel,) * nd), (3 * groups,))
    extra = max(stride, dilation) - 1
    if padding > dilation * (kernel - 1) + 2:
        return
    check(
        lambda ns, x, w, b: getattr(ns.torch, f"conv_transpose{nd}d")(
            x, w, b, stride, padding, extra, groups, dilation
        ),
        x, w, b,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", [(1, 1), (2, 3), (4, 5)])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_padding_by_name(padding, kernel):
    x, w = normal((1, 2, 6, 7), (3, 2, *kernel))
    check(lambda ns, x, w: ns.F.conv2d(x, w, padding=padding, dilation=1), x, w)


def test_per_dim_arguments():
    x, w = normal((2, 2, 9, 8), (3, 2, 3, 2))
    check(lambda ns, x, w: ns.F.conv2d(x, w, None, (2, 1), (1, 0), (1, 2)), x, w)
    x, w = normal((2, 3, 5, 4), (3, 2, 3, 2))
    check(lambda ns, x, w: ns.F.conv_transpose2d(x, w, None, (2, 3), (1, 0), (1, 2)), x, w)


def test_depthwise():
    x, w, b = normal((2, 6, 8, 8), (12, 1, 3, 3), (12,))
    check(lambda ns, x, w, b: ns.F.conv2d(x, w, b, padding=1, groups=6), x, w, b)


def test_one_example():
    x, w, b = normal((3, 6, 5), (4, 3, 2, 2), (4,))
    check(lambda ns, x, w, b: ns.F.conv2d(x, w, b), x, w, b)
    check(lambda ns, x, w: ns.F.conv_transpose2d(x, w), *normal((3, 6, 5), (3, 4, 2, 2)))


def test_empty_batch():
    check(lambda ns, x, w: ns.F.conv2d(x, w), *normal((0, 2, 5, 5), (3, 2, 2, 2)))


def test_second_derivatives():
    def penalty(ns, x, w):
        y = ns.F.conv2d(x, w, padding=1, stride=2).tanh()
        gx, gw = ns.torch.autograd.grad(y.sum(), (x, w), create_graph=True)
        return (gx * gx).sum() + (gw * gw).sum()

    check(penalty, *normal((2, 2, 5, 4), (3, 2, 3, 3)))

    def transposed(ns, x, w):
        y = ns.F.conv_transpose2d(x, w, padding=1, stride=2, output_padding=1).tanh()
        gx, gw = ns.torch.autograd.grad(y.sum(), (x, w), create_graph=True)
        return (gx * gx).sum() + (gw * gw).sum()

    check(transposed, *normal((2, 2, 3, 4), (2, 3, 3, 3)))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
def test_dtypes(dtype):
    x, w = (RNG.integers(-5, 6, size=s).astype(dtype) for s in ((1, 2, 5, 5), (3, 2, 3, 3)))
    check(lambda ns, x, w: ns.F.conv2d(x, w), x, w, rtol=1e-5)


def test_halves_are_accumulated_in_float32():
    x = wend.full((1, 4096, 1), 1.0, dtype=wend.float16)
    assert wend.conv1d(x, x).item() == 4096.0


def test_large_images_go_in_parts():
    x, w = (a.astype(np.float32) for a in normal((5, 16, 64, 64), (8, 16, 3, 3)))
    check(lambda ns, x, w: ns.F.conv2d(x, w, padding=1), x, w, rtol=1e-4, atol=1e-2)


def test_one_program_serves_all_sizes():
    for n, c, f, size, kernel in ((1, 2, 3, 8, 3), (2, 4, 2, 9, 2), (3, 1, 5, 20, 5)):
        x, w = normal((n, c, size, size + 1), (f, c, kernel, kernel))
        check(lambda ns, x, w: ns.F.conv2d(x, w, padding=1).relu().sum((2, 3)), x, w)


def test_errors():
    def t(ns, *shape, dtype="float32"):
        return ns.torch.zeros(shape, dtype=getattr(ns.torch, dtype))

    def conv(ns, x, w, *args, **kwargs):
        return ns.F.conv2d(t(ns, *x), t(ns, *w), *args, **kwargs)

    # fmt: off
    refuses(lambda ns: conv(ns, (1, 4, 5, 5), (8, 3, 3, 3)), ShapeError,
            "conv2d: given groups=1, weight of size \\(8, 3, 3, 3\\), expected input of shape "
            "\\(1, 4, 5, 5\\) to have 3 channels, but got 4 channels instead")
    refuses(lambda ns: conv(ns, (1, 3, 2, 2), (8, 3, 3, 3)), ShapeError,
            "conv2d: calculated padded input size per channel: \\(2 x 2\\). Kernel size: "
            "\\(3 x 3\\), .*can't be greater than actual input size")
    refuses(lambda ns: conv(ns, (3, 5), (8, 3, 3, 3)), ShapeError, "conv2d: expected 3D")
    refuses(lambda ns: conv(ns, (1, 3, 5, 5), (8, 3, 3, 3), t(ns, 7)), ShapeError, "expected bias")
    refuses(lambda ns: conv(ns, (1, 3, 5, 5), (8, 3, 3, 3), stride=0), ShapeError, "non-positive")
    refuses(lambda ns: conv(ns, (1, 3, 5, 5), (8, 3, 3, 3), padding=-1), ShapeError, "negative")
    refuses(lambda ns: conv(ns, (1, 3, 5, 5), (8, 3, 3, 3), dilation=0), ShapeError, "dilation")
    refuses(lambda ns: conv(ns, (1, 3, 5, 5), (8, 3, 3, 3), stride=(1, 1, 1)), ShapeError, "stride")
    refuses(lambda ns: conv(ns, (1, 4, 5, 5), (3, 2, 3, 3), groups=2), ShapeError, "divisible")
    refuses(lambda ns: conv(ns, (1, 3, 5, 5), (8, 3, 3, 3), padding="full"), ShapeError, "'full'")
    refuses(lambda ns: conv(ns, (1, 3, 5, 5), (8, 3, 3, 3), padding="same", stride=2), ShapeError,
            "padding='same' is not supported for strided")
    refuses(lambda ns: ns.F.conv2d(t(ns, 1, 3, 5, 5), t(ns, 8, 3, 3, 3, dtype="float64")),
            DTypeError, "conv2d: input type \\(torch.float32\\) and weight type")
    refuses(lambda ns: ns.F.conv_transpose2d(t(ns, 1, 3, 5, 5), t(ns, 2, 3, 3, 3)), ShapeError,
            "conv_transpose2d: .* to have 2 channels, but got 3")
    refuses(lambda ns: ns.F.conv_transpose2d(t(ns, 1, 2, 5, 5), t(ns, 2, 3, 3, 3),
            output_padding=1), ShapeError, "output padding must be smaller")
    refuses(lambda ns: ns.F.conv_transpose2d(t(ns, 1, 2, 2, 2), t(ns, 2, 3, 2, 2), padding=3),
            ShapeError, "too small")
    # fmt: on
