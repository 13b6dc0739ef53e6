"""Pooling, unfolding and resampling against PyTorch over many geometries."""

import numpy as np
import pytest
from against import check, refuses

from wend._engine.base.errors import ArgumentError, NotImplementedInWend, ShapeError

RNG = np.random.default_rng(0)


def distinct(*shape):
    return RNG.permutation(int(np.prod(shape))).reshape(shape) / 7.0


GEOMETRIES = [
    {"kernel_size": 2}, {"kernel_size": 3, "stride": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True}, {"kernel_size": 2, "stride": 3},
    {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True}, {"kernel_size": 1},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
]  # fmt: skip


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("nd", [1, 2])
def test_pools(nd, geometry):
    x = distinct(2, 3, *(8, 7)[:nd])
    check(lambda ns, x: getattr(ns.F, f"max_pool{nd}d")(x, **geometry), x)
    check(lambda ns, x: getattr(ns.F, f"max_pool{nd}d")(x, **geometry), x[0])
    for include in (True, False):
        how = {**geometry, "count_include_pad": include}
        check(lambda ns, x, how=how: getattr(ns.F, f"avg_pool{nd}d")(x, **how), x)


def test_max_pool_dilation_and_indices():
    x = distinct(2, 3, 9, 8)
    check(lambda ns, x: ns.F.max_pool2d(x, 2, 1, dilation=3), x)
    check(lambda ns, x: ns.F.max_pool2d_with_indices(x, (3, 2), (2, 1), 1), x)
    check(lambda ns, x: ns.F.max_pool1d_with_indices(x[0], 3, 2, 1, 2), x)
    check(lambda ns, x: ns.F.max_pool2d_with_indices(x, 2), np.ones((1, 1, 4, 4)))
    nan = x.copy()
    nan[0, 0, 2, 2] = np.nan
    check(lambda ns, x: ns.F.max_pool2d(x, 3, 2), nan, gradient=False)
    check(lambda ns, x: ns.F.max_pool2d_with_indices(x, 2), np.full((1, 1, 4, 4), -np.inf),
          gradient=False)  # fmt: skip


def test_avg_pool_divisor_and_ints():
    x = RNG.normal(size=(2, 3, 7, 6))
    check(lambda ns, x: ns.F.avg_pool2d(x, 3, 2, divisor_override=5), x)
    check(lambda ns, x: ns.F.avg_pool2d(x, 2), RNG.integers(-9, 9, size=(1, 2, 4, 4)))


def test_pool_over_all_there_is():
    """Kernel = extent, for every length, is one structure."""
    for n in (3, 5, 8):
        check(lambda ns, x: ns.F.max_pool1d(x, x.shape[-1]), distinct(2, 3, n))
        check(lambda ns, x: ns.F.avg_pool2d(x, x.shape[2:]), distinct(2, 3, n, n + 1))


@pytest.mark.parametrize("out", [1, 2, 3, 5, 7, 10])
def test_adaptive_pools(out):
    x = distinct(2, 3, 7, 9)
    check(lambda ns, x: ns.F.adaptive_avg_pool2d(x, out), x)
    check(lambda ns, x: ns.F.adaptive_avg_pool2d(x, (out, 3)), x[0])
    check(lambda ns, x: ns.F.adaptive_avg_pool1d(x, out), x[0])
    check(lambda ns, x: ns.F.adaptive_max_pool2d_with_indices(x, (3, out)), x)
    check(lambda ns, x: ns.F.adaptive_max_pool1d_with_indices(x, out), x[0])


def test_adaptive_pools_keep_infinities_apart():
    x = np.array([[[1.0, np.inf, 2.0, 3.0, 4.0]]])
    check(lambda ns, x: ns.F.adaptive_avg_pool1d(x, 3), x, gradient=False)


def test_lp_pool():
    x = RNG.uniform(0.5, 2.0, size=(2, 3, 8, 7))
    check(lambda ns, x: ns.F.lp_pool2d(x, 2, 3, 2), x)
    check(lambda ns, x: ns.F.lp_pool1d(x[0], 3.0, 2, ceil_mode=True), x)


def test_unpool_undoes_pool():
    x = distinct(2, 3, 8, 6)

    def there_and_back(ns, x):
        y, at = ns.F.max_pool2d_with_indices(x, 2)
        return ns.F.max_unpool2d(y, at, 2)

    check(there_and_back, x)


@pytest.mark.parametrize(
    "how",
    [(2,), (3, 1, 1, 2), ((2, 3), (1, 2), (1, 0), (2, 1))],
)
def test_unfold_and_fold(how):
    x = RNG.normal(size=(2, 3, 8, 9))
    check(lambda ns, x: ns.F.unfold(x, *how), x)
    check(lambda ns, x: ns.F.fold(ns.F.unfold(x, *how), (8, 9), *how), x)
    check(lambda ns, x: ns.F.unfold(x, *how), x[0])


MODES = [
    ("nearest", 1, None), ("nearest", 2, None), ("nearest-exact", 2, None), ("linear", 1, False),
    ("linear", 1, True), ("bilinear", 2, False), ("bilinear", 2, True), ("bicubic", 2, False),
    ("bicubic", 2, True), ("area", 2, None), ("trilinear", 3, False), ("trilinear", 3, True),
]  # fmt: skip


@pytest.mark.parametrize("case", MODES)
@pytest.mark.parametrize("target", [(3, 4, 2), (9, 13, 11), (1, 1, 1), (6, 5, 4)])
def test_interpolate_to_size(case, target):
    mode, nd, corners = case
    x = RNG.normal(size=(2, 2, *(6, 5, 4)[:nd]))
    check(
        lambda ns, x: ns.F.interpolate(x, target[:nd], mode=mode, align_corners=corners),
        x,
    )


@pytest.mark.parametrize("case", MODES)
@pytest.mark.parametrize("factor", [2, 0.5, 1.7, 0.37, 1 / 3])
@pytest.mark.parametrize("recompute", [None, True])
def test_interpolate_by_factor(case, factor, recompute):
    mode, nd, corners = case
    x = RNG.normal(size=(1, 2, *(9, 10, 6)[:nd]))
    check(
        lambda ns, x: ns.F.interpolate(
            x,
            scale_factor=factor,
            mode=mode,
            align_corners=corners,
            recompute_scale_factor=recompute,
        ),
        x,
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("target", [(3, 4), (2, 9), (12, 12)])
def test_interpolate_antialiased(mode, target):
    x = RNG.normal(size=(1, 2, 8, 10))
    check(lambda ns, x: ns.F.interpolate(x, target, mode=mode, antialias=True), x)


def test_nearest_rounds_as_float32():
    for n, m in ((10, 7), (100, 73), (41, 123), (7, 49), (333, 1000)):
        x = np.arange(n, dtype=np.float64).reshape(1, 1, n)
        check(lambda ns, x, m=m: ns.F.interpolate(x, m), x, gradient=False)
        check(lambda ns, x, m=m: ns.F.interpolate(x, m, mode="nearest-exact"), x, gradient=False)


def test_shuffles():
    x = RNG.normal(size=(2, 8, 4, 6))
    check(lambda ns, x: ns.F.pixel_shuffle(x, 2), x)
    check(lambda ns, x: ns.F.pixel_unshuffle(x, 2), x)
    check(lambda ns, x: ns.F.channel_shuffle(x, 4), x)


def test_errors():
    t = lambda ns, *shape: ns.torch.zeros(shape)  # noqa: E731
    # fmt: off
    refuses(lambda ns: ns.F.max_pool2d(t(ns, 1, 2, 3, 4), 4), ShapeError,
            "max_pool2d: .* calculated output size \\(0, 1\\) is too small")
    refuses(lambda ns: ns.F.max_pool2d(t(ns, 1, 2, 3, 4), 2, padding=2), ShapeError,
            "pad should be .* at most half of effective kernel size, but got pad=2")
    refuses(lambda ns: ns.F.avg_pool2d(t(ns, 1, 2, 3, 4), 2, padding=2), ShapeError, "avg_pool2d")
    refuses(lambda ns: ns.F.max_pool2d(t(ns, 3, 4), 2), ShapeError, "expected 3D")
    refuses(lambda ns: ns.F.max_pool2d(t(ns, 1, 2, 3, 4), (2, 2, 2)), ShapeError, "kernel_size")
    refuses(lambda ns: ns.F.max_pool2d(t(ns, 1, 2, 3, 4), 0), ShapeError, "greater than zero")
    refuses(lambda ns: ns.F.max_pool2d(t(ns, 1, 0, 3, 4), 2), ShapeError, "non-zero size")
    refuses(lambda ns: ns.F.avg_pool2d(t(ns, 1, 2, 3, 4), 2, divisor_override=0), ShapeError,
            "divisor must be not zero")
    refuses(lambda ns: ns.F.adaptive_avg_pool2d(t(ns, 3, 4), 2), ShapeError, "adaptive_avg_pool2d")
    refuses(lambda ns: ns.F.adaptive_max_pool2d(t(ns, 3, 4), (2, 2)), ArgumentError, "adaptive_max")
    refuses(lambda ns: ns.F.unfold(t(ns, 1, 2, 3, 4), 5), ShapeError, "unfold: given spatial size")
    refuses(lambda ns: ns.F.fold(t(ns, 1, 8, 6), (4, 4), 2), ShapeError, "sliding blocks 3 \\* 3 =")
    refuses(lambda ns: ns.F.interpolate(t(ns, 1, 2, 3, 4)), ArgumentError, "either size or scale")
    refuses(lambda ns: ns.F.interpolate(t(ns, 1, 2, 3, 4), 2, 2), ArgumentError, "only one of size")
    refuses(lambda ns: ns.F.interpolate(t(ns, 1, 2, 3, 4), 2, mode="linear"), NotImplementedInWend,
            "linear mode needs 3D")
    refuses(lambda ns: ns.F.interpolate(t(ns, 1, 2, 3, 4), 2, align_corners=True), ArgumentError,
            "align_corners option can only")
    refuses(lambda ns: ns.F.interpolate(t(ns, 1, 2, 3, 4), 0), ShapeError, "greater than 0")
    refuses(lambda ns: ns.F.pixel_shuffle(t(ns, 1, 8, 4, 4), 3), ShapeError, "not divisible by 9")
    refuses(lambda ns: ns.F.pixel_unshuffle(t(ns, 1, 8, 3, 4), 2), ShapeError, "expects height")
    # fmt: on
