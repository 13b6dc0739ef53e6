"""Functions that sort arguments or draw random numbers; initialisation. Some with PyTorch."""

import math

import numpy as np
import pytest

import wend
import wend.nn.functional as F
from wend import nn

RNG = np.random.default_rng(0)


def x(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# -- random functions: properties ------------------------------------------------------------


def test_dropout_keeps_the_mean_and_scales():
    wend.manual_seed(0)
    data = wend.ones(100, 100)
    result = F.dropout(data, 0.25)
    kept = result != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.02
    assert wend.allclose(result[kept], wend.tensor(1 / 0.75))
    assert F.dropout(data, 0.25, training=False) is data
    assert F.dropout(data, 1.0).abs().sum().item() == 0
    assert F.dropout(data, 0.0) is data


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_channel_dropout_drops_whole_channels(spatial):
    wend.manual_seed(0)
    result = getattr(F, f"dropout{spatial}d")(wend.ones(8, 16, *(3,) * spatial), 0.5)
    rows = result.reshape(8 * 16, -1)
    assert all(len(set(row)) == 1 for row in rows.tolist())
    assert 0 < (rows[:, 0] == 0).sum().item() < 8 * 16


def test_alpha_dropout_keeps_mean_and_variance():
    wend.manual_seed(0)
    result = F.alpha_dropout(wend.randn(200, 200), 0.2, training=True)
    assert abs(result.mean().item()) < 0.03
    assert abs(result.var().item() - 1) < 0.05
    channels = F.feature_alpha_dropout(wend.ones(10, 20, 4), 0.5, training=True)
    assert all(len(set(row)) == 1 for row in channels.reshape(200, 4).tolist())


def test_dropout_has_the_gradient_of_its_mask():
    data = wend.ones(50, requires_grad=True)
    result = F.dropout(data, 0.5)
    result.sum().backward()
    assert wend.equal(data.grad, result.detach())


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_bad_probabilities_raise(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(wend.ones(2), p)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout2d(p)


def test_dropout_in_place():
    data = wend.ones(100)
    assert F.dropout(data, 0.5, inplace=True) is data
    assert 0 < (data == 0).sum().item() < 100


def test_rrelu_draws_slopes():
    data = -wend.ones(1000)
    slopes = -F.rrelu(data, 0.1, 0.3, training=True)
    assert 0.1 <= slopes.min().item() <= slopes.max().item() <= 0.3
    assert abs(slopes.mean().item() - 0.2) < 0.01


def test_gumbel_softmax():
    wend.manual_seed(0)
    logits = wend.tensor([[0.0, 1.0, 2.0]]).expand(4000, 3).clone().requires_grad_()
    soft = F.gumbel_softmax(logits, tau=0.5)
    assert wend.allclose(soft.sum(-1), wend.ones(4000))
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(np.unique(hard.detach().numpy().round(6))) == {0.0, 1.0}
    share = hard.detach().mean(0).tolist()
    for found, expected in zip(share, F.softmax(logits[0].detach(), 0).tolist(), strict=True):
        assert abs(found - expected) < 0.04
    hard[:, 0].sum().backward()
    assert logits.grad.abs().sum().item() > 0


# -- activations in place --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("relu", ()),
        ("elu", (0.5,)),
        ("leaky_relu", (0.2,)),
        ("selu", ()),
        ("hardtanh", (-1, 1)),
        ("celu", (1.0,)),
        ("rrelu", (0.2, 0.2)),
    ],
)
def test_functions_overwrite_where_asked(name, args):
    values = x(3, 4)
    expected = getattr(F, name)(wend.tensor(values), *args)
    data = wend.tensor(values)
    assert getattr(F, name)(data, *args, inplace=True) is data
    assert wend.equal(data, expected)
    again = wend.tensor(values)
    assert getattr(F, name + "_")(again, *args) is again
    assert wend.equal(again, expected)


def test_in_place_activations_have_gradients():
    data = wend.tensor([-1.0, 2.0], requires_grad=True)
    F.relu(data * 1, inplace=True).sum().backward()
    assert data.grad.tolist() == [0, 1]
    assert F.relu(data, False).tolist() == [0, 2]


# -- padding, embedding, normalization -------------------------------------------------------


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("amounts", [(1, 2), (0, 1, 2, 0), (-1, 2), (2, -1, 1, 1)])
def test_padding_equals_torchs(mode, amounts):
    torch = pytest.importorskip("torch")
    shape = (2, 3, 4) if len(amounts) == 2 else (2, 3, 4, 5)
    values = x(*shape)
    theirs = torch.nn.functional.pad(torch.tensor(values), amounts, mode)
    ours = F.pad(wend.tensor(values), amounts, mode)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_bad_padding_raises():
    data = wend.ones(1, 2, 3)
    with pytest.raises(RuntimeError, match="divisible by 2"):
        F.pad(data, (1, 2, 3))
    with pytest.raises(NotImplementedError, match="Unrecognised padding mode"):
        F.pad(data, (1, 1), "mirror")
    with pytest.raises(ValueError, match="doesn't take in value"):
        F.pad(data, (1, 1), "reflect", 3.0)
    with pytest.raises(RuntimeError, match="less than the corresponding input"):
        F.pad(data, (3, 0), "reflect")


def test_embedding_checks_its_padding_row():
    with pytest.raises(AssertionError, match="within num_embeddings"):
        F.embedding(wend.tensor([0]), wend.ones(2, 2), padding_idx=2)
    with pytest.raises(IndexError):
        F.embedding(wend.tensor([5]), wend.ones(2, 2)).sum().item()


def test_embedding_bag_weighs_samples():
    table = wend.tensor([[1.0], [10.0], [100.0]])
    weights = wend.tensor([[0.5, 2.0]], requires_grad=True)
    result = F.embedding_bag(wend.tensor([[0, 2]]), table, per_sample_weights=weights, mode="sum")
    assert result.tolist() == [[200.5]]
    result.sum().backward()
    assert weights.grad.tolist() == [[1.0, 100.0]]
    with pytest.raises(NotImplementedError, match="per_sample_weights"):
        F.embedding_bag(wend.tensor([[0, 2]]), table, per_sample_weights=weights)
    with pytest.raises(ValueError, match="offsets has to be None"):
        F.embedding_bag(wend.tensor([[0, 2]]), table, wend.tensor([0]))


def test_normalization_needs_more_than_one_value():
    for call in (
        lambda: nn.BatchNorm1d(3)(wend.ones(1, 3)),
        lambda: nn.InstanceNorm1d(3)(wend.ones(2, 3, 1)),
        lambda: nn.GroupNorm(3, 3)(wend.ones(1, 3)),
    ):
        with pytest.raises(ValueError, match="Expected more than 1"):
            call()
    with pytest.raises(ValueError, match="expected 4D input"):
        nn.BatchNorm2d(3)(wend.ones(2, 3))


def test_running_statistics_are_not_differentiated():
    norm = nn.BatchNorm1d(2)
    norm(wend.randn(4, 2, requires_grad=True)).sum().backward()
    assert not norm.running_mean.requires_grad
    assert norm.num_batches_tracked.item() == 1


def test_pdist_equals_torchs():
    torch = pytest.importorskip("torch")
    values = x(4, 3)
    ours, theirs = F.pdist(wend.tensor(values)), torch.nn.functional.pdist(torch.tensor(values))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


def test_former_names_of_interpolate_warn():
    with pytest.warns(UserWarning, match="upsample_nearest` is deprecated"):
        assert F.upsample_nearest(wend.ones(1, 1, 2, 2), scale_factor=2).shape == (1, 1, 4, 4)


# -- initialisation --------------------------------------------------------------------------


def test_gains():
    assert nn.init.calculate_gain("linear") == 1
    assert nn.init.calculate_gain("relu") == math.sqrt(2)
    assert nn.init.calculate_gain("leaky_relu", 1) == 1
    assert nn.init.calculate_gain("tanh") == 5 / 3
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        nn.init.calculate_gain("sine")
    with pytest.raises(ValueError, match="not a valid number"):
        nn.init.calculate_gain("leaky_relu", True)


@pytest.mark.parametrize(
    ("fill", "mean", "std", "least", "most"),
    [
        (lambda t: nn.init.uniform_(t, -1, 3), 1, 4 / math.sqrt(12), -1, 3),
        (lambda t: nn.init.normal_(t, 2, 0.5), 2, 0.5, None, None),
        (lambda t: nn.init.trunc_normal_(t, 0, 1, -1, 1), 0, 0.54, -1, 1),
        (lambda t: nn.init.xavier_uniform_(t), 0, math.sqrt(2 / 300), -0.1415, 0.1415),
        (lambda t: nn.init.xavier_normal_(t, 2), 0, 2 * math.sqrt(2 / 300), None, None),
        (lambda t: nn.init.kaiming_uniform_(t, nonlinearity="relu"), 0, 0.1, -0.174, 0.174),
        (lambda t: nn.init.kaiming_normal_(t, mode="fan_out"), 0, math.sqrt(2 / 100), None, None),
    ],
)
def test_random_fillings(fill, mean, std, least, most):
    wend.manual_seed(0)
    parameter = nn.Parameter(wend.empty(100, 200))
    assert fill(parameter) is parameter
    assert parameter.is_leaf
    assert parameter.mean().item() == pytest.approx(mean, abs=0.02)
    assert parameter.std().item() == pytest.approx(std, rel=0.03)
    if least is not None:
        assert least <= parameter.min().item() <= parameter.max().item() <= most


def test_fixed_fillings():
    assert nn.init.constant_(wend.empty(2), 3.5).tolist() == [3.5, 3.5]
    assert nn.init.ones_(wend.empty(2)).tolist() == [1, 1]
    assert nn.init.zeros_(wend.ones(2)).tolist() == [0, 0]
    assert nn.init.eye_(wend.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    data = wend.randn(1, 4, 5)
    weight = nn.init.dirac_(wend.empty(4, 4, 3))
    assert wend.allclose(F.conv1d(data, weight, padding=1), data)


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 2, 3)])
def test_orthogonal_filling(shape):
    weight = nn.init.orthogonal_(wend.empty(*shape), gain=2.0).reshape(shape[0], -1)
    rows, columns = weight.shape
    product = weight @ weight.t() if rows <= columns else weight.t() @ weight
    assert wend.allclose(product, 4 * wend.eye(min(rows, columns)), atol=1e-5)


def test_sparse_filling():
    weight = nn.init.sparse_(wend.empty(10, 7), 0.3, std=1.0)
    assert (weight == 0).sum(0).tolist() == [3] * 7


def test_bad_shapes_raise():
    for fill in (nn.init.eye_, nn.init.xavier_uniform_, nn.init.orthogonal_, nn.init.dirac_):
        with pytest.raises(ValueError, match=r"dimensions|fewer than 2"):
            fill(wend.empty(3))
    with pytest.raises(ValueError, match="Mode x not supported"):
        nn.init.kaiming_uniform_(wend.empty(2, 2), mode="x")
    with pytest.warns(UserWarning, match="no-op"):
        nn.init.kaiming_uniform_(wend.empty(0, 2))


def test_former_names_warn():
    with pytest.warns(FutureWarning, match=r"nn\.init\.normal_"):
        nn.init.normal(wend.empty(2))


def test_layers_begin_as_in_pytorch():
    wend.manual_seed(0)
    linear = nn.Linear(400, 300)
    for values in (linear.weight, linear.bias):
        assert values.abs().max().item() <= 1 / 20
        assert values.std().item() == pytest.approx(1 / 20 / math.sqrt(3), rel=0.1)
    conv = nn.Conv2d(16, 32, 5)
    assert conv.weight.abs().max().item() <= 1 / 20
    lstm = nn.LSTM(3, 100)
    assert lstm.weight_ih_l0.abs().max().item() <= 0.1
    table = nn.Embedding(1000, 20, padding_idx=3)
    assert table.weight[3].tolist() == [0] * 20
    assert table.weight.std().item() == pytest.approx(1, rel=0.05)


# -- sampling --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
def test_grid_sample_equals_torchs(mode, padding, corners):
    torch = pytest.importorskip("torch")
    image, grid = x(2, 3, 4, 5), RNG.uniform(-1.7, 1.7, size=(2, 3, 6, 2)).astype(np.float32)
    results = []
    for t in (wend, torch):
        a, b = t.tensor(image).requires_grad_(), t.tensor(grid).requires_grad_()
        y = t.nn.functional.grid_sample(a, b, mode, padding, corners)
        (y * t.arange(108.0).reshape(2, 3, 3, 6)).sum().backward()
        results.append([y.detach().numpy(), a.grad.numpy()])
        if mode == "bilinear":
            results[-1].append(b.grad.numpy())
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("corners", [True, False])
def test_affine_grid_equals_torchs(corners):
    torch = pytest.importorskip("torch")
    theta = x(2, 2, 3)
    ours, theirs = (
        t.nn.functional.affine_grid(t.tensor(theta), (2, 1, 3, 4), corners) for t in (wend, torch)
    )
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_bad_grids_raise():
    with pytest.raises(ValueError, match="expected mode"):
        F.grid_sample(wend.ones(1, 1, 2, 2), wend.ones(1, 1, 1, 2), mode="x")
    with pytest.raises(RuntimeError, match="size 2 in last dimension"):
        F.grid_sample(wend.ones(1, 1, 2, 2), wend.ones(1, 1, 1, 3), align_corners=True)
