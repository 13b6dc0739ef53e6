"""What the registry cannot know of activations and losses: errors, warnings, extreme inputs."""

import numpy as np
import pytest

import wend
from wend._engine.base.errors import (
    ArgumentError,
    DTypeError,
    ExecutionError,
    IndexOutOfRange,
    ShapeError,
)
from wend._engine.core.primitive import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
EDGES = [-INF, -1e4, -20.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 20.0, 1e4, INF, NAN]


def data(t):
    return np.asarray(t.detach().numpy())


def close(got, want, tolerance=1e-9):
    np.testing.assert_allclose(data(got), data(want), rtol=tolerance, atol=tolerance)


# -- activations at edges ------------------------------------------------------------------------

ACTIVATIONS = (
    "gelu silu elu selu celu leaky_relu hardtanh hardswish hardsigmoid relu6 softplus softsign "
    "mish logsigmoid tanhshrink hardshrink softshrink"
).split()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_at_edges(name):
    got = getattr(ops, name)(wend.tensor(EDGES, dtype=wend.float64))
    want = data(getattr(F, name)(torch.tensor(EDGES, dtype=torch.float64)))
    want = np.where(np.isnan(want), data(got), want)  # a number is no worse than its NaN
    np.testing.assert_allclose(data(got), want, rtol=1e-9, atol=1e-9)
    assert np.isnan(data(got)[-1])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradient_of_activation_at_edges(name):
    """PyTorch's choice of branch where two meet; a number wherever PyTorch has one."""
    x = wend.tensor(EDGES, dtype=wend.float64, requires_grad=True)
    y = torch.tensor(EDGES, dtype=torch.float64, requires_grad=True)
    getattr(ops, name)(x).sum().backward()
    getattr(F, name)(y).sum().backward()
    got, want = data(x.grad), data(y.grad)
    finite = np.isfinite(EDGES)
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-6, atol=1e-9)


def test_softmax_of_large_scores():
    x = wend.tensor([[1e4, 1e4 + 1, -1e4], [-INF, 0.0, 1.0]])
    close(ops.softmax(x, 1), torch.softmax(torch.tensor(x.tolist()), 1), 1e-6)
    close(ops.log_softmax(x, 1), torch.log_softmax(torch.tensor(x.tolist()), 1), 1e-6)


def test_halves_are_summed_in_float32():
    """In float16 the sum of 70 000 exponentials would be infinite."""
    y = ops.softmax(wend.zeros(70_000, dtype=wend.float16), 0)
    assert y.dtype is wend.float16
    assert data(y.float().sum()) == pytest.approx(1.0, rel=0.05)
    loss = ops.mse_loss(wend.full((70_000,), 2.0, dtype=wend.float16), wend.zeros(70_000).half())
    assert loss.dtype is wend.float16
    assert loss.item() == 4.0


def test_normalize_a_row_of_zeros():
    x = wend.zeros(2, 3, dtype=wend.float64, requires_grad=True)
    y = ops.normalize(x)
    y.sum().backward()
    assert data(y).tolist() == [[0.0] * 3] * 2
    zeros = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    F.normalize(zeros).sum().backward()
    close(x.grad, zeros.grad)


def test_cosine_similarity_with_zeros():
    x = wend.zeros(2, 3, dtype=wend.float64, requires_grad=True)
    zeros = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    ops.cosine_similarity(x, wend.ones(2, 3, dtype=wend.float64)).sum().backward()
    F.cosine_similarity(zeros, torch.ones(2, 3, dtype=torch.float64)).sum().backward()
    close(x.grad, zeros.grad)


# -- losses ----------------------------------------------------------------------------------------


def test_logits_of_any_size_give_finite_losses():
    x = wend.tensor([1e4, -1e4, 0.0], dtype=wend.float64, requires_grad=True)
    target = wend.tensor([0.0, 1.0, 1.0], dtype=wend.float64)
    loss = ops.binary_cross_entropy_with_logits(x, target, reduction="sum")
    loss.backward()
    assert loss.item() == pytest.approx(2e4 + np.log(2))
    assert x.grad.tolist() == pytest.approx([1.0, -1.0, -0.5])


def test_binary_cross_entropy_at_0_and_1():
    x = wend.tensor([0.0, 1.0, 0.5], dtype=wend.float64, requires_grad=True)
    y = torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64, requires_grad=True)
    loss = ops.binary_cross_entropy(x, wend.tensor([1.0, 1.0, 0.0], dtype=wend.float64))
    want = F.binary_cross_entropy(y, torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    loss.backward()
    want.backward()
    close(loss, want)
    close(x.grad, y.grad, 1e-7)


def test_cross_entropy_ignores_targets():
    x = wend.tensor([[1.0, 2.0], [3.0, INF], [0.0, 0.0]])
    target = wend.tensor([0, -100, 1])
    want = F.cross_entropy(torch.tensor(x.tolist())[[0, 2]], torch.tensor([0, 1]))
    close(ops.cross_entropy(x, target), want, 1e-6)
    nothing = ops.cross_entropy(x, wend.tensor([-100, -100, -100]))
    assert np.isnan(nothing.item())  # the mean of nothing, as PyTorch has it
    assert ops.cross_entropy(x[:0], target[:0], reduction="sum").item() == 0.0


def test_cross_entropy_of_one_example_takes_a_target_of_one_element():
    x = wend.tensor([0.0, 1.0, 0.5])
    assert ops.cross_entropy(x, wend.tensor([1])).shape == ()
    close(ops.cross_entropy(x, wend.tensor([1])), ops.cross_entropy(x, wend.tensor(1)))


@pytest.mark.parametrize(("size_average", "reduce"), [(True, None), (False, None), (None, False)])
def test_deprecated_reductions(size_average, reduce):
    x, y = [1.0, 2.0], [3.0, 5.0]
    with pytest.warns(UserWarning, match="size_average and reduce"):
        got = ops.mse_loss(wend.tensor(x), wend.tensor(y), size_average, reduce)
    with pytest.warns(UserWarning, match="size_average and reduce"):
        want = F.mse_loss(torch.tensor(x), torch.tensor(y), size_average, reduce)
    close(got, want)


def test_a_target_that_is_broadcast_warns():
    with pytest.warns(UserWarning, match="different to the input size"):
        ops.mse_loss(wend.ones(4, 1), wend.ones(4))


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (lambda f, t: f.gelu(t.ones(2), approximate="x"), ArgumentError, "'none' or 'tanh'"),
        (lambda f, t: f.silu(t.ones(2).long()), DTypeError, "silu: not implemented"),
        (lambda f, t: f.glu(t.ones(2, 3)), ShapeError, "glu: halving dimension must be even"),
        (lambda f, t: f.glu(t.tensor(1.0)), ShapeError, "0-dimensional"),
        (lambda f, t: f.prelu(t.ones(2, 3), t.ones(2)), ShapeError, "prelu: weight has 2 elements"),
        (lambda f, t: f.softmax(t.ones(2).long(), 0), DTypeError, "softmax: not implemented"),
        (lambda f, t: f.softmax(t.ones(2), 1), IndexError, "Dimension out of range"),
        (lambda f, t: f.mse_loss(t.ones(2), t.ones(2), reduction="x"), ArgumentError, "'x'"),
        (lambda f, t: f.mse_loss(t.ones(2), t.ones(3)), ShapeError, "do not broadcast"),
        (lambda f, t: f.smooth_l1_loss(t.ones(2), t.ones(2), beta=-1.0), ArgumentError, "beta"),
        (lambda f, t: f.huber_loss(t.ones(2), t.ones(2), delta=0.0), ArgumentError, "delta"),
        (
            lambda f, t: f.binary_cross_entropy(t.ones(2), t.ones(3)),
            ArgumentError,
            "must be the same as input size",
        ),
        (
            lambda f, t: f.cross_entropy(t.ones(3, 4), t.tensor([0, 1])),
            ArgumentError,
            r"expected input batch_size \(3\) to match target batch_size \(2\)",
        ),
        (
            lambda f, t: f.cross_entropy(t.ones(3, 4), t.tensor([0, 1, 1]).int()),
            DTypeError,
            "target dtype to be Long or Byte, but got torch.int32",
        ),
        (
            lambda f, t: f.cross_entropy(t.ones(3, 4), t.ones(3, 4).long()),
            DTypeError,
            "class probabilities",
        ),
        (
            lambda f, t: f.cross_entropy(t.ones(3, 4), t.tensor([0, 1, 1]), t.ones(3)),
            ShapeError,
            "either for all 4 classes",
        ),
        (
            lambda f, t: f.cross_entropy(t.ones(1, 2), t.tensor([0]), label_smoothing=2.0),
            ShapeError,
            "label_smoothing must be between 0.0 and 1.0",
        ),
        (
            lambda f, t: f.binary_cross_entropy(t.ones(2) * 1.5, t.ones(2)),
            ExecutionError,
            "between 0 and 1",
        ),
        (lambda f, t: f.nll_loss(t.ones(3, 4, 5), t.ones(3, 4).long()), ArgumentError, "dim 1"),
        (lambda f, t: f.nll_loss(t.ones(2, 3), t.tensor([0, 3])), IndexOutOfRange, "3"),
        (lambda f, t: f.nll_loss(t.ones(2, 3), t.tensor([0, -1])), IndexOutOfRange, "-1"),
        (
            lambda f, t: f.multi_margin_loss(t.ones(2, 3), t.tensor([0, 1]), p=3),
            ArgumentError,
            "p == 1 and p == 2",
        ),
        (
            lambda f, t: f.triplet_margin_loss(*[t.ones(2, 3)] * 3, margin=0.0),
            ArgumentError,
            "margin must be greater than 0",
        ),
        (
            lambda f, t: f.gaussian_nll_loss(t.ones(2, 3), t.ones(2, 3), t.ones(5)),
            ArgumentError,
            "var of size",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_errors(program, error, message):
    with pytest.raises(error, match=message):
        program(ops, wend).tolist()
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)):  # PyTorch refuses too
        program(F, torch)
