"""wend.nested: making nested tensors, what they know of themselves, ops, gradients."""

import copy
import pickle

import numpy as np
import pytest

import wend
import wend.nn.functional as F
from wend import nested
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError, ShapeError
from wend.nested import NestedTensor

try:
    import torch
except ImportError:
    torch = None

rng = np.random.default_rng(0)
ROWS = [rng.normal(size=(n, 3)) for n in (2, 4, 1)]
IMAGES = [rng.normal(size=(3, h, w)) for h, w in ((8, 9), (6, 5))]


@pytest.fixture
def rows():
    return nested.nested_tensor([wend.tensor(x) for x in ROWS], layout=wend.jagged)


@pytest.fixture
def images():
    return nested.nested_tensor([wend.tensor(x) for x in IMAGES])


def same(found, wanted):
    """A nested tensor has these components."""
    assert isinstance(found, NestedTensor)
    assert len(found) == len(wanted)
    for a, b in zip(found.unbind(), wanted, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        b = b.detach().numpy() if isinstance(b, wend.Tensor) else b
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-6, atol=1e-7)


# -- making ---------------------------------------------------------------------------------


def test_what_it_knows_of_itself(rows, images):
    assert rows.is_nested and isinstance(rows, wend.Tensor)
    assert rows.dim() == rows.ndim == 3 and len(rows) == rows.size(0) == 3
    assert rows.size(2) == 3 and rows.dtype is wend.float64 and rows.numel() == 21
    assert repr(rows.shape) == "torch.Size([3, j1, 3])"
    assert rows.layout is wend.jagged and images.layout is wend.strided
    assert repr(images.shape) == "torch.Size([2, 3, j2, j3])"
    assert rows.shape == (rows * 2).shape and rows.shape != rows[:2].shape
    with pytest.raises(ShapeError, match=r"dim 1 .* is ragged, of sizes \[2, 4, 1\]"):
        rows.size(1)
    assert "size=(3, j1, 3)" in repr(rows)


def test_jagged_parts(rows, images):
    np.testing.assert_allclose(rows.values().numpy(), np.concatenate(ROWS))
    assert rows.offsets().tolist() == [0, 2, 6, 7] and rows.lengths() is None
    with pytest.raises(ShapeError, match="2 dims of this nested tensor are ragged"):
        images.values()


def test_from_jagged():
    values = wend.tensor(np.concatenate(ROWS))
    same(nested.nested_tensor_from_jagged(values, wend.tensor([0, 2, 6, 7])), ROWS)
    same(nested.nested_tensor_from_jagged(values, lengths=wend.tensor([2, 4, 1])), ROWS)
    holes = nested.nested_tensor_from_jagged(
        values, wend.tensor([0, 2, 6, 7]), wend.tensor([1, 3, 1])
    )
    same(holes, [ROWS[0][:1], ROWS[1][:3], ROWS[2]])
    assert holes.lengths().tolist() == [1, 3, 1] and not holes.is_contiguous()
    assert holes.contiguous().values().shape == (5, 3)
    same(holes * 2, [ROWS[0][:1] * 2, ROWS[1][:3] * 2, ROWS[2] * 2])
    turned = nested.nested_tensor_from_jagged(values.T, wend.tensor([0, 2, 6, 7]), jagged_dim=2)
    same(turned, [x.T for x in ROWS])
    with pytest.raises(ArgumentError, match="give offsets, lengths"):
        nested.nested_tensor_from_jagged(values)
    with pytest.raises(ArgumentError, match="from 6 to 9, and the values have size 7"):
        nested.nested_tensor_from_jagged(values, wend.tensor([0, 2, 6, 9]))


def test_narrow():
    x = wend.arange(30.0).reshape(3, 5, 2)
    got = nested.narrow(x, 1, wend.tensor([0, 1, 4]), wend.tensor([3, 2, 1]), wend.jagged)
    same(got, [x[0, :3], x[1, 1:3], x[2, 4:]])
    assert got.lengths().tolist() == [3, 2, 1] and got.offsets().tolist() == [0, 6, 14, 15]
    same(nested.narrow(x, 1, 1, 2), [x[i, 1:3] for i in range(3)])
    with pytest.raises(ShapeError, match="3 from 3 on, of a dim of size 5"):
        nested.narrow(x, 1, 3, 3)


def test_padding(rows, images):
    got = nested.to_padded_tensor(rows, 7.0)
    assert got.shape == (3, 4, 3)
    np.testing.assert_allclose(got[0, :2].numpy(), ROWS[0])
    assert (got[0, 2:] == 7).all()
    assert rows.to_padded_tensor(0.0, (4, 6, 3)).shape == (4, 6, 3)
    assert images.to_padded_tensor(0.0).shape == (2, 3, 8, 9)
    with pytest.raises(ShapeError, match="less than what the components need"):
        rows.to_padded_tensor(0.0, (3, 2, 3))


def test_masked_select():
    x, mask = wend.arange(6.0).reshape(2, 3), wend.tensor([[True, False, True], [False] * 3])
    same(nested.masked_select(x, mask), [np.array([0.0, 2.0]), np.zeros(0)])


def test_bad_calls(rows):
    with pytest.raises(ShapeError, match=r"have \[1, 2\] dims"):
        nested.nested_tensor([wend.ones(2), wend.ones(2, 2)])
    with pytest.raises(ArgumentTypeError, match="a list of tensors is needed"):
        nested.nested_tensor(3)
    with pytest.raises(ArgumentError, match="layout is"):
        nested.nested_tensor([wend.ones(2)], layout=wend.sparse_coo)
    with pytest.raises(ArgumentError, match=r"nested tensors of \[2, 3\] components"):
        rows + rows[:2]
    with pytest.raises(ArgumentError, match="sum: dim 0 of a nested tensor numbers"):
        rows.sum(0)
    with pytest.raises(ArgumentError, match="dim 0 of a nested tensor must stay the first"):
        rows.permute(1, 0, 2)
    with pytest.raises(ArgumentError, match="the first one must be their number"):
        rows.view(4, -1)
    with pytest.raises(GraphError, match="has no dense value"):
        rows.numpy()
    with pytest.raises(ShapeError):
        rows + wend.ones(4)


def test_copies_and_pickles(rows):
    for twin in (copy.deepcopy(rows), pickle.loads(pickle.dumps(rows))):
        same(twin, ROWS)
        assert not twin.requires_grad
    assert pickle.loads(pickle.dumps(rows.requires_grad_())).requires_grad


# -- components -----------------------------------------------------------------------------


def test_components(rows):
    same(rows[1:], ROWS[1:])
    same(rows[:, :1], [x[:1] for x in ROWS])
    same(rows[..., 0], [x[..., 0] for x in ROWS])
    np.testing.assert_allclose(rows[1].numpy(), ROWS[1])
    np.testing.assert_allclose(rows[-1, 0].numpy(), ROWS[-1][0])
    with pytest.raises(IndexError):
        rows[3]
    assert [len(x) for x in rows] == [2, 4, 1]
    assert rows.tolist() == [x.tolist() for x in ROWS]
    rows[0] = 5.0
    assert rows[0].tolist() == [[5.0] * 3] * 2
    rows[1, 2] = wend.zeros(3)
    assert rows[1][2].tolist() == [0.0] * 3


def test_in_place(rows):
    packed = rows.values()
    rows.mul_(2).add_(rows)
    same(rows, [4 * x for x in ROWS])
    np.testing.assert_allclose(packed.numpy(), np.concatenate(ROWS))
    np.testing.assert_allclose(rows.values().numpy(), 4 * np.concatenate(ROWS))


# -- ops ------------------------------------------------------------------------------------

W, V = rng.normal(size=(5, 3)), rng.normal(size=3)
EACH = {
    "arithmetic": lambda x: 2 * x - x / 3 + x * x,
    "comparison": lambda x: x > 0,
    "a vector": lambda x: x * wend.tensor(V),
    "pointwise composites": lambda x: F.gelu(x) + x.sigmoid() + F.silu(x),
    "where": lambda x: wend.where(x > 0, x, x.exp()),
    "linear": lambda x: F.linear(x, wend.tensor(W)),
    "matmul": lambda x: x @ wend.tensor(W).T,
    "layer norm": lambda x: F.layer_norm(x, (3,)),
    "last dim": lambda x: x.softmax(-1) + x.sum(-1, keepdim=True) + x.cumsum(-1),
    "clamp": lambda x: x.clamp(min=0.1),
    "a view": lambda x: x.unsqueeze(-1).squeeze(-1),
    "cast": lambda x: x.to(wend.float32).double(),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "clone": lambda x: x.clone().detach(),
}
SHIFTED = {  # as a nested tensor sees it, as a component does
    "a ragged dim": (lambda x: x.softmax(1), lambda x: x.softmax(0)),
    "scan": (lambda x: x.cumsum(1), lambda x: x.cumsum(0)),
    "transpose": (lambda x: x.transpose(1, 2), lambda x: x.T),
    "permute": (lambda x: x.permute(0, 2, 1), lambda x: x.T),
    "products": (lambda x: x @ x.transpose(-1, -2), lambda x: x @ x.T),
    "bmm": (lambda x: wend.bmm(x, x.transpose(1, 2)), lambda x: x @ x.T),
    "view": (lambda x: x.view(3, -1, 3, 1), lambda x: x.view(-1, 3, 1)),
    "shape": (lambda x: x.reshape(x.shape), lambda x: x),
    "flatten": (lambda x: x.flatten(1, 2), lambda x: x.flatten()),
    "expand": (lambda x: x[:, :, :1].expand(3, -1, 2), lambda x: x[:, :1].expand(-1, 2)),
    "cat": (lambda x: wend.cat([x, x], 1), lambda x: wend.cat([x, x], 0)),
    "stack": (lambda x: wend.stack([x, x], 1), lambda x: wend.stack([x, x], 0)),
    "sort": (lambda x: x.sort(1).values, lambda x: x.sort(0).values),
    "flip": (lambda x: x.flip([1]), lambda x: x.flip([0])),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda x: x.narrow(1, 1, 2)),
}


@pytest.mark.parametrize("name", EACH)
def test_each_component(rows, name):
    same(EACH[name](rows), [EACH[name](wend.tensor(x)) for x in ROWS])


@pytest.mark.parametrize("name", SHIFTED)
def test_dims_are_those_of_the_nested_tensor(rows, name):
    whole, one = SHIFTED[name]
    same(whole(rows), [one(wend.tensor(x)) for x in ROWS])


def test_several_ragged_dims(images):
    parts = [wend.tensor(x) for x in IMAGES]
    weight = wend.tensor(rng.normal(size=(4, 3, 3, 3)))
    same(images * 2 + images, [x * 3 for x in parts])
    same(F.conv2d(images, weight, padding=1), [F.conv2d(x, weight, padding=1) for x in parts])
    same(F.max_pool2d(images.relu(), 2), [F.max_pool2d(x.relu(), 2) for x in parts])
    means = images.mean((2, 3))
    assert not means.is_nested and means.shape == (2, 3)
    np.testing.assert_allclose(means.numpy(), [x.mean((1, 2)) for x in IMAGES])
    np.testing.assert_allclose(images.sum().item(), sum(x.sum() for x in IMAGES))


def test_reductions(rows):
    flat = np.concatenate(ROWS)
    np.testing.assert_allclose(rows.sum().item(), flat.sum())
    np.testing.assert_allclose(rows.mean().item(), flat.mean())
    np.testing.assert_allclose(rows.std().item(), flat.std(ddof=1))
    np.testing.assert_allclose(rows.max().item(), flat.max())
    np.testing.assert_allclose(rows.norm().item(), np.linalg.norm(flat))
    assert (rows == rows).all().item() is True
    np.testing.assert_allclose(rows.sum(1).numpy(), [x.sum(0) for x in ROWS])
    np.testing.assert_allclose(rows.amax((1, 2)).numpy(), [x.max() for x in ROWS])
    np.testing.assert_allclose(rows.mean((0, 1)).numpy(), flat.mean(0))
    same(rows.sum(-1), [x.sum(-1) for x in ROWS])
    same(rows.max(-1).values, [x.max(-1) for x in ROWS])


def test_a_number_of_each_matrix():
    squares = [rng.normal(size=(n, n)) for n in (2, 3)]
    got = wend.trace(nested.nested_tensor([wend.tensor(x) for x in squares]))
    np.testing.assert_allclose(got.numpy(), [np.trace(x) for x in squares])


def test_dense_operands_of_all_components(rows):
    y = wend.tensor(rng.normal(size=(3, 1, 3)))
    same(rows + y, [x + y[i].numpy() for i, x in enumerate(ROWS)])
    m = wend.tensor(rng.normal(size=(3, 3, 2)))
    same(rows @ m, [x @ m[i].numpy() for i, x in enumerate(ROWS)])


def test_losses_weigh_all_rows_alike(rows):
    flat = wend.tensor(np.concatenate(ROWS))
    answers = [[0, 1], [2, 2, 1, 0], [1]]
    targets = nested.nested_tensor([wend.tensor(a) for a in answers])
    got = F.cross_entropy(rows, targets)
    np.testing.assert_allclose(
        got.item(),
        F.cross_entropy(flat, wend.tensor([*answers[0], *answers[1], *answers[2]])).item(),
    )
    np.testing.assert_allclose(F.mse_loss(rows, 2 * rows).item(), F.mse_loss(flat, 2 * flat).item())
    same(F.mse_loss(rows, 2 * rows, reduction="none"), [x * x for x in ROWS])


def test_modules_and_embeddings():
    wend.manual_seed(0)  # a row of nearly equal numbers, normalised, is mostly rounding
    tokens = [[1, 2], [0, 1, 3, 4], [4]]
    words = nested.nested_tensor([wend.tensor(t) for t in tokens])
    model = wend.nn.Sequential(
        wend.nn.Embedding(5, 4), wend.nn.Linear(4, 6), wend.nn.ReLU(), wend.nn.LayerNorm(6)
    )
    same(model(words), [model(wend.tensor(t)) for t in tokens])
    model(words).sum().backward()
    grads = [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    sum(model(wend.tensor(t)).sum() for t in tokens).backward()
    for g, p in zip(grads, model.parameters(), strict=True):
        np.testing.assert_allclose(g, p.grad.numpy(), atol=1e-5)


def test_random_ops(rows):
    wend.manual_seed(0)
    ones = wend.ones_like(rows)
    dropped = F.dropout(ones, 0.5)
    assert {v for part in dropped.tolist() for row in part for v in row} == {0.0, 2.0}
    drawn = wend.rand_like(rows)
    assert len({v for part in drawn.tolist() for row in part for v in row}) == 21
    assert wend.zeros_like(rows).sum().item() == 0


def test_what_is_ragged_by_chance():
    """Components of one size: what stays a nested tensor does not depend on that."""
    x = nested.nested_tensor([wend.ones(2, 3), wend.ones(2, 3)])
    assert x.softmax(1).is_nested and x.sum(-1).is_nested and x.cumsum(-1).is_nested
    assert not x.sum(1).is_nested and x.transpose(1, 2).is_nested
    assert x.offsets().tolist() == [0, 2, 4]
    one = nested.nested_tensor([wend.ones(2, 3)])
    assert F.linear(one, wend.ones(4, 3)).is_nested and not one.mean(1).is_nested


def test_elementwise_ops_and_rows_are_one_op(rows):
    """The components lie behind one another: their number does not tell in the work."""
    from wend._engine.core import _hot

    rows = nested.nested_tensor_from_jagged(rows.values(), rows.offsets())
    trace = _hot.current_trace()
    weight = wend.ones(5, 3, dtype=wend.float64)
    before = trace.ops
    F.gelu(F.linear(rows * 2, weight)) + 1
    assert trace.ops - before == 4


# -- gradients ------------------------------------------------------------------------------


def test_gradients_of_leaves():
    x = nested.nested_tensor([wend.tensor(a) for a in ROWS], requires_grad=True)
    assert x.requires_grad and x.is_leaf and x.grad is None
    (x * x).sum().backward()
    same(x.grad, [2 * a for a in ROWS])
    x.grad = None
    assert x.grad is None


def test_gradients_of_jagged_values():
    values = wend.tensor(np.concatenate(ROWS), requires_grad=True)
    x = nested.nested_tensor_from_jagged(values, wend.tensor([0, 2, 6, 7]))
    (x.softmax(1) * x).sum().backward()
    got = values.grad.numpy()
    want = []
    for a in ROWS:
        part = wend.tensor(a, requires_grad=True)
        (part.softmax(0) * part).sum().backward()
        want.append(part.grad.numpy())
    np.testing.assert_allclose(got, np.concatenate(want), rtol=1e-6)


def test_gradients_flow_to_components():
    parts = [wend.tensor(a, requires_grad=True) for a in ROWS]
    x = nested.as_nested_tensor(parts)
    assert not nested.nested_tensor(parts).requires_grad
    (nested.to_padded_tensor(x, 0.0) ** 2).sum().backward()
    for part, a in zip(parts, ROWS, strict=True):
        np.testing.assert_allclose(part.grad.numpy(), 2 * a)


def test_of_a_dense_tensor():
    x = wend.ones(2, 3, requires_grad=True)
    (nested.as_nested_tensor(x) * 3).sum().backward()
    assert x.grad.tolist() == [[3.0] * 3] * 2


# -- with the rest --------------------------------------------------------------------------


def test_vmap_over_components(rows):
    def longest(x):
        while len(x) > 1 and x.norm() > 1:
            x = x[1:] / 2
        return x

    got = wend.func.vmap(longest)(rows)
    same(got, [longest(wend.tensor(x)) for x in ROWS])
    dense = wend.func.vmap(lambda x, w: (x @ w).sum(), (0, None))(rows, wend.tensor(V))
    np.testing.assert_allclose(dense.numpy(), [(x @ V).sum() for x in ROWS])
    norms = wend.func.vmap(wend.func.grad(lambda x: (x * x).sum()))(rows)
    same(norms, [2 * x for x in ROWS])
    with pytest.raises(ArgumentError, match="out_dims has 1"):
        wend.func.vmap(lambda x: x * 2, out_dims=1)(rows)


def test_batched_over_components(rows):
    got = wend.batched(lambda x: x.sum().item())(rows)
    np.testing.assert_allclose(got, [x.sum() for x in ROWS])


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: x * 2,
        lambda t, x: t.nn.functional.gelu(x),
        lambda t, x: x.sum(-1),
        lambda t, x: x.sum(1),
        lambda t, x: x.sum((0, 1)),
        lambda t, x: x.sum(),
        lambda t, x: x.mean(1),
        lambda t, x: x.softmax(-1),
        lambda t, x: x.unsqueeze(2),
        lambda t, x: t.nn.functional.layer_norm(x, (3,)),
        lambda t, x: x @ t.ones(3, 2, dtype=t.float64),
        lambda t, x: x.transpose(1, 2),
    ],
)
def test_against_torch(call):
    found = call(wend, nested.nested_tensor([wend.tensor(x) for x in ROWS], layout=wend.jagged))
    theirs = torch.nested.nested_tensor([torch.tensor(x) for x in ROWS], layout=torch.jagged)
    wanted = call(torch, theirs)
    assert found.is_nested == wanted.is_nested
    if wanted.is_nested:
        same(found, [x.numpy() for x in wanted.unbind()])
    else:
        np.testing.assert_allclose(found.numpy(), wanted.numpy())
