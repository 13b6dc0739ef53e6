"""At zeros, infinities, NaN, ties and the ends of domains every op gives PyTorch's numbers."""

import edges
import harness
import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.base import config, dtypes

needs_torch = pytest.mark.skipif(not harness.HAS_TORCH, reason="PyTorch is not installed")
PRECISE = [dtypes.float32, dtypes.float64]


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", PRECISE, ids=str)
@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in edges.comparable()])
def test_results_and_both_gradients(op, dtype):
    function = harness.torch_function(op)
    with own_trie(), config.override(compile=False):
        found = edges.faults(op, function, edges.calls(op, function, dtype), 2)
    harness.report(found)


@needs_torch
def test_each_known_difference_is_of_ops_that_there_are():
    names = {op.name for op in harness.OPS}
    for known in edges.KNOWN:
        assert names.issuperset(known.ops.split()) and known.reason


INF, NAN = float("inf"), float("nan")
# (function of tensors, operands, gradients of its sum): PyTorch's, written down
# fmt: off
SLOPES = {
    "xlogy": (lambda x, y: wend.xlogy(x, y), [[0.0, 0.0, 2.0], [2.0, 0.0, 0.0]],
              [[np.log(2.0), 0.0, -INF], [0.0, NAN, INF]]),
    "xlog1py": (lambda x, y: wend.special.xlog1py(x, y), [[0.0, 0.0], [1.0, -1.0]],
                [[np.log(2.0), 0.0], [0.0, NAN]]),
    "logit": (lambda x: wend.logit(x), [[0.0, 1.0, -1.0, 0.5]], [[INF, INF, NAN, 4.0]]),
    "copysign": (lambda x, y: wend.copysign(x, y), [[INF, 0.0, 2.0], [1.0, 1.0, -1.0]],
                 [[NAN, 0.0, -1.0], [0.0, 0.0, 0.0]]),
    "pow": (lambda x: x**-2, [[0.0, -0.0, INF, 2.0]], [[-INF, INF, 0.0, -0.25]]),
    "div": (lambda x, y: x / y, [[1.0], [1e-200]], [[1e200], [-INF]]),
    "elu": (lambda x: wend.nn.functional.elu(x, 0.5), [[NAN, 0.0, 1.0]], [[NAN, 0.5, 1.0]]),
    "hardsigmoid": (lambda x: wend.nn.functional.hardsigmoid(x), [[NAN, 0.0, 3.0]],
                    [[0.0, 1 / 6, 0.0]]),
    "prelu": (lambda x, w: wend.nn.functional.prelu(x, w), [[INF, -1.0], [0.0]],
              [[1.0, 0.0], [-1.0]]),
    "huber_loss": (lambda x, y: wend.nn.functional.huber_loss(x, y, reduction="sum"),
                   [[0.0, INF, 1.0], [INF, 0.0, 0.0]], [[-1.0, 1.0, 1.0], [1.0, -1.0, -1.0]]),
    "lerp": (lambda a, b, w: wend.lerp(a, b, w), [[1.0], [3.0], [INF]], [[-INF], [INF], [2.0]]),
    "amax": (lambda x: wend.amax(x, 1), [[[1.0, NAN], [2.0, 2.0]]], [[[NAN, NAN], [0.5, 0.5]]]),
    "max": (lambda x: wend.max(x), [[1.0, NAN, NAN]], [[0.0, 0.5, 0.5]]),
    "norm": (lambda x: wend.linalg.vector_norm(x, 3), [[NAN, 0.0]], [[NAN, NAN]]),
    "var": (lambda x: wend.var(x), [[0.0, 1.0, INF]], [[-INF, -INF, NAN]]),
    "logsumexp": (lambda x: wend.logsumexp(x, 0), [[INF, 1e300, 0.0, -INF]],
                  [[NAN, 0.0, 0.0, 0.0]]),
    "logsumexp of one": (lambda x: wend.logsumexp(x, 0), [INF], [NAN]),
    "nanmean": (lambda x: wend.nanmean(x), [[NAN, NAN]], [[NAN, NAN]]),
    "renorm": (lambda x: wend.renorm(x, 2, 0, 1.0), [[[NAN, 2.0], [0.5, 0.5]]],
               [[[1.0, 1.0], [1.0, 1.0]]]),
    "cdist": (lambda x, y: wend.cdist(x, y, INF), [[[1.0, -1.0]], [[0.0, 0.0]]],
              [[[1.0, -1.0]], [[-1.0, 1.0]]]),
    "gaussian_nll_loss": (lambda x, v: wend.nn.functional.gaussian_nll_loss(x, x.detach(), v),
                          [[1.0], [INF]], [[0.0], [0.0]]),
}
# fmt: on


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_written_down(name, compiled):
    function, operands, slopes = SLOPES[name]
    with own_trie(), config.override(compile=compiled, wait=compiled):
        given = [wend.tensor(x, dtype=wend.float64, requires_grad=True) for x in operands]
        found = wend.autograd.grad(function(*given).sum(), given)
        for slope, want in zip(found, slopes, strict=True):
            np.testing.assert_allclose(slope.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_zeros_keep_their_signs(compiled):
    with own_trie(), config.override(compile=compiled, wait=compiled):
        x = wend.full((9,), -0.0)
        functions = [
            wend.relu,
            lambda x: x.clamp(min=0),
            lambda x: x.clamp(max=0.0),
            wend.nn.functional.relu6,
            wend.erfinv,
            lambda x: wend.fmax(x, -x),
            lambda x: wend.nn.functional.hardtanh(x, 0.0, 1.0),
        ]
        for function in functions:
            y = function(x)
            assert np.all(np.signbit(y.numpy())) and not np.any(y.numpy())
        assert not np.any(np.signbit(wend.relu(-x).numpy()))


def test_searchsorted_bisects_rows_with_nan_as_pytorch_does():
    row = wend.tensor([0.0, 1.0, NAN])
    values = wend.tensor([-1.0, 0.5, 2.0, NAN])
    assert wend.searchsorted(row, values).tolist() == [0, 1, 3, 3]
    assert wend.bucketize(values, wend.tensor([NAN, NAN])).tolist() == [2, 2, 2, 2]
