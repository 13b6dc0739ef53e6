"""Sparse tensors: what they hold, ops by dense and SciPy's results, gradients, sparse gradients."""

import copy
import io
import pickle

import numpy as np
import pytest
import scipy.sparse

import wend
import wend.nn.functional as F
from wend import sparse
from wend._engine.base.errors import (
    ArgumentTypeError,
    GraphError,
    IndexOutOfRange,
    NotImplementedInWend,
)

try:
    import torch
except ImportError:
    torch = None

PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]


def parts(t):
    """The operands of the tables, in module t."""
    x = t.sparse_coo_tensor(t.tensor(PLACES), t.tensor([3.0, 4.0, 5.0, 1.0]), (2, 3))
    y = t.sparse_coo_tensor(t.tensor([[0, 1, 0], [0, 0, 2]]), t.tensor([1.0, -2.0, 3.0]), (2, 3))
    return {
        "t": t,
        "x": x,
        "k": x.coalesce(),
        "y": y,
        "c": x.to_sparse_csr(),
        "e": y.to_sparse_csr(),
        "q": x.to_sparse_csc(),
        "b": t.eye(4).to_sparse_bsr((2, 2)),
        "h": t.sparse_coo_tensor(t.tensor([[0, 2, 0]]), t.arange(6.0).reshape(3, 2), (3, 2)),
        "p": t.stack([x, y]),
        "d": t.arange(6.0).reshape(2, 3) + 0.5,
        "w": t.arange(12.0).reshape(3, 4) / 7,
    }


#: Expressions that are evaluated with sparse operands, and again with the same operands as dense
#: tensors. A bar separates them.
SAME = """x.relu() | -x | x.abs() | x * 2 | 2 * x | x / 2 | x * d | d * x | d + x | d - x | x + y
x - y | x * y | k * k | x.sum() | x.sum(0) | x.sum(1) | x.sum((0, 1)) | x.permute(1, 0) | x.t()
x.T | x.transpose(0, 1) | x.unsqueeze(0) | x.unsqueeze(2) | x.norm() | x.pow(2) | x ** 2
x[0] | x[:, 2] | x[0, 2] | x[1][2] | x[0:1] | x[..., 1:] | x[[1, 0]] | p[1] | p[:, 1, :2] | x.mean()
t.cat([x, y]) | t.cat([x, y], 1) | t.stack([x, y], 1) | t.mm(x, w) | d.t() @ x | x @ w | x.mm(w)
x @ y.t() | x @ t.ones(3) | t.mv(x, t.ones(3)) | t.ones(2) @ x | x3bmm | x.index_select(1, one)
x.narrow(1, 1, 2) | x.double() | x.unbind()[1] | x.log1p() | x.tanh() | x.sqrt() | x.sign() | h * 2
h + h | h.sum(0) | h.sum(1) | h[0] | p.sum(0) | p.transpose(1, 2) | F.linear(w.t(), x) | F.relu(x)
c + e | c - e | c * 2 | c * e | c @ w | c.t() | c.sum() | c @ c.t() | c.relu() | c * d | q @ w
q.t() | b @ t.ones(4, 2) | b.t() | b * 3 | c[0] | t.addmm(t.ones(2, 4), x, w, beta=0.5, alpha=2)
c + d | t.hstack([x, y]) | t.vstack([c, e]) | x.movedim(0, 1) | x ** 3.0 | t.square(c)
t.tile(d, (1, 1)) + x | d.to(x) | t.moveaxis(p, 0, 2)
t.addmm(t.ones(2, 4), c, w) | x.squeeze(0) | t.cat([h, h], 1) | x.any() | x.type_as(one) | c / 2"""


def evaluated(text, names):
    t = names["t"]
    more = {"F": t.nn.functional, "one": t.tensor([2, 0, 2])}
    if text == "x3bmm":
        return t.bmm(names["p"], names["w"].repeat(2, 1, 1))
    return eval(text, {**names, **more})


def dense(value):
    return value.to_dense() if isinstance(value, sparse.SparseTensor) else value


@pytest.mark.parametrize("line", SAME.splitlines())
def test_results_are_those_of_dense_tensors(line):
    names = parts(wend)
    full = {key: dense(value) for key, value in names.items()}
    for text in line.split(" | "):
        found, wanted = dense(evaluated(text, names)), evaluated(text, full)
        assert found.dtype is wanted.dtype, text
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, err_msg=text)


#: Expressions whose text (places, values, flags) is PyTorch's.
TEXTS = """x | k | c | q | b | h | p | x.double() | x.sum(0) | k + k | k * k | x[0] | x.bool()
h.coalesce() | t.smm(x, w) | t.hspmm(x, w) | t.sparse.softmax(x, 1) | t.sparse.log_softmax(x, 0)
t.sparse.softmax(h, 1) | t.sparse.softmax(h, 0) | t.sparse.sum(x, 1) | t.sparse.sum(x, (0, 1))
t.sspaddmm(t.ones(2, 4).to_sparse(), x, w) | d.to_sparse(1) | d.to_sparse_csr() | d.sparse_mask(k)
d.to_sparse(layout=t.sparse_csc) | t.eye(4).to_sparse_bsc((2, 2)) | x.type() | x.layout | c.layout
t.sparse.spdiags(t.arange(8.0).reshape(2, 4), t.tensor([2, -1]), (3, 5)) | x.is_sparse
t.sparse_coo_tensor(size=(2, 3)) | t.sparse_coo_tensor([[0, 1]], [1, 2], (3,), dtype=t.float64)
t.sparse_csr_tensor(crow_indices=[0, 1, 3], col_indices=[1, 0, 2], values=[1.0, 2, 3])
t.sparse_compressed_tensor([0, 1, 2], [0, 1], [1.0, 2], (2, 2), layout=t.sparse_csc) | x._nnz()
t.sparse_bsr_tensor([0, 1, 2], [0, 1], t.ones(2, 2, 2)) | t.sparse.FloatTensor(2, 3) | c.values()
t.sparse.FloatTensor(t.tensor([[0, 1]]), t.tensor([1.0, 2]), t.Size([3])) | x.sparse_dim()
t.zeros(2, 3, layout=t.sparse_coo) | t.zeros_like(x) | x.new_zeros(3) | h.dense_dim() | x.shape
t.sparse.sampled_addmm(c, t.ones(2, 2), t.ones(2, 3)) | x.clone().zero_() | x.clone().mul_(2)
t.ones(2, 3).add_(x, alpha=-2) | t.ones(2, 3).mul_(x) | x.clone().copy_(y) | x.is_coalesced()
isinstance(x, t.sparse.FloatTensor) | isinstance(x, t.Tensor) | x.coalesce() is x
k.coalesce() is k | x.sum(dtype=t.float64) | c.crow_indices() | q.row_indices()
t.tensor(3.0).to_sparse() | t.zeros(2, 2).to_sparse() | t.ones(2).sparse_dim() | x.stride()
t.sparse_coo_tensor(t.zeros(1, 0), t.zeros(0), (3,)).to_dense()"""


@pytest.mark.parametrize("line", TEXTS.splitlines())
def test_texts_are_those_of_torch(line):
    if torch is None:
        pytest.skip("PyTorch is not installed")
    ours, theirs = parts(wend), parts(torch)
    for text in line.split(" | "):
        assert str(eval(text, ours)) == str(eval(text, theirs)), text


def test_products_are_those_of_scipy():
    rng = np.random.default_rng(1)
    rows, columns = rng.integers(0, 9, 30), rng.integers(0, 7, 30)
    values, x = rng.normal(size=30), rng.normal(size=(7, 4))
    matrix = scipy.sparse.coo_array((values, (rows, columns)), shape=(9, 7))
    a = wend.sparse_coo_tensor(np.stack([rows, columns]), values, (9, 7))
    for m in (a, a.coalesce(), a.to_sparse_csr(), a.to_sparse_csc(), a.to_sparse_bsr((3, 7))):
        np.testing.assert_allclose((m @ wend.tensor(x)).numpy(), matrix @ x)
        found = sparse.mm(m.t(), m).to_dense() if m.layout is not wend.sparse_bsr else None
        if found is not None:
            np.testing.assert_allclose(found.numpy(), (matrix.T @ matrix).toarray())
    solved = sparse.spsolve(wend.eye(3).to_sparse_csr() * 2, wend.ones(3))
    assert solved.tolist() == [0.5] * 3


# -- gradients --------------------------------------------------------------------------------

LOSSES = """(t.sparse.mm(x, w) ** 2).sum()
(t.sparse.addmm(a, x, w, alpha=2.0) ** 2).sum()
t.sparse.sum(x, 0).to_dense().pow(2).sum()
(t.sparse.mm(x, x.t()).to_dense() ** 2).sum()
t.sparse.log_softmax(x, 1).to_dense().pow(2).sum()
t.sparse.softmax(x, 0).to_dense().pow(2).sum()
(x.coalesce().values() ** 2).sum() + t.sparse.sum(x * d)
(d.t().mm((x * 2).to_dense()) ** 2).sum()
(t.sparse_coo_tensor(i, v, (2, 3)).to_dense() ** 3).sum()
(t.sparse_csr_tensor([0, 1, 3], [2, 0, 2], v[:3], (2, 3)) @ w).pow(2).sum()
(t.sparse.mm(d.to_sparse(), w) ** 2).sum()"""


def gradients(t, text):
    rng = np.random.default_rng(2)
    leaves = {
        name: t.tensor(rng.normal(size=shape), requires_grad=True)
        for name, shape in {"w": (3, 4), "a": (2, 4), "d": (2, 3), "v": (4,)}.items()
    }
    i = t.tensor(PLACES)
    x = t.sparse_coo_tensor(i, t.tensor(rng.normal(size=4)), (2, 3), requires_grad=True)
    loss = eval(text, {"t": t, "x": x, "i": i, **leaves})
    loss.backward()
    found = [g.to_dense() for z in (x, *leaves.values()) if (g := z.grad) is not None]
    return [loss.detach().numpy(), *[g.numpy() for g in found]]


@pytest.mark.parametrize("text", LOSSES.splitlines())
def test_gradients_are_those_of_torch(text):
    found = gradients(wend, text)
    if torch is not None:
        for ours, theirs in zip(found, gradients(torch, text), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_gradients_by_differences_and_of_second_order():
    x = wend.sparse_coo_tensor(PLACES, [0.3, -1.0, 0.5, 2.0], (2, 3), dtype=wend.float64)
    w = wend.tensor(np.arange(6.0).reshape(3, 2) / 5, requires_grad=True)
    check = sparse.as_sparse_gradcheck(wend.autograd.gradcheck)
    assert check(lambda x, w: sparse.mm(x, w), (x.requires_grad_(), w), masked=True)
    assert check(lambda x: x.tanh() * 2, x)
    y = (sparse.mm(x, w) ** 3).sum()
    (g,) = wend.autograd.grad(y, x, create_graph=True)
    assert g.is_sparse and g.is_coalesced() and g.requires_grad
    (second,) = wend.autograd.grad(sparse.sum(g * g), w)
    full = x.to_dense().detach().requires_grad_()
    (wanted,) = wend.autograd.grad(((full @ w) ** 3).sum(), full, create_graph=True)
    there = wend.tensor([[0.0, 0, 1], [1, 0, 1]])
    (other,) = wend.autograd.grad(((wanted * there) ** 2).sum(), w)
    np.testing.assert_allclose(second.numpy(), other.numpy())


def test_leaves_hooks_and_changes_in_place():
    x = wend.sparse_coo_tensor(PLACES, [1.0, 2, 3, 4], (2, 3), requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g) or g * 2)
    (x * 3).to_dense().sum().backward()
    assert seen[0].to_dense().tolist() == [[0, 0, 3], [3, 0, 3]]
    assert x.grad.to_dense().tolist() == [[0, 0, 6], [6, 0, 6]]
    with pytest.raises(GraphError):
        x.mul_(2)
    with wend.no_grad():
        x.mul_(2)
    assert x.requires_grad and x.is_leaf and x.to_dense().tolist() == [[0, 0, 10], [4, 0, 6]]
    x.grad = None
    assert x.grad is None and x.detach().requires_grad is False
    z = x.detach().clone().add_(wend.ones(2, 3).to_sparse())
    assert z.to_dense().tolist() == [[1, 1, 11], [5, 1, 7]]
    (x * x).backward(wend.ones(2, 3).to_sparse())
    assert x.grad.to_dense().tolist() == [[0, 0, 40], [16, 0, 24]]  # the hook doubles


class Product(wend.autograd.Function):
    """A sparse times a dense matrix, with a backward pass of its own."""

    @staticmethod
    def forward(ctx, indices, values, dense):
        matrix = wend.sparse_coo_tensor(indices, values, (2, 3))
        ctx.save_for_backward(matrix, dense)
        return wend.matmul(matrix, dense)

    @staticmethod
    def backward(ctx, g):
        matrix, dense = ctx.saved_tensors
        values = g.matmul(dense.t())[matrix._indices()[0], matrix._indices()[1]]
        return None, values, matrix.t().matmul(g)


class Scaled(wend.autograd.Function):
    """A sparse matrix, twice, as a dense matrix."""

    @staticmethod
    def forward(ctx, x):
        return x.to_dense() * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_functions_of_ones_own_take_and_save_sparse_tensors():
    v = wend.tensor([1.0, 2, 3, 4], requires_grad=True)
    w = wend.arange(6.0).reshape(3, 2).requires_grad_()
    (Product.apply(wend.tensor(PLACES), v, w) ** 2).sum().backward()
    found = [v.grad.tolist(), w.grad.tolist()]
    v.grad = w.grad = None
    ((wend.sparse_coo_tensor(PLACES, v, (2, 3)) @ w) ** 2).sum().backward()
    assert found == [v.grad.tolist(), w.grad.tolist()]
    x = wend.sparse_coo_tensor(PLACES, [1.0, 2, 3, 4], (2, 3), requires_grad=True)
    (Scaled.apply(x) ** 2).sum().backward()
    assert x.grad.to_dense().tolist() == [[0, 0, 40], [16, 0, 24]]


@pytest.mark.parametrize("how", ["sum", "mean", "amax", "amin"])
def test_products_by_other_reductions(how):
    x = wend.tensor([[0.0, 2, 3], [0, 0, 0], [1, -1, 0]])
    w = wend.arange(6.0).reshape(3, 2).requires_grad_()
    a = x.to_sparse_csr().requires_grad_()
    found = sparse.mm(a, w, how)
    total = (x @ w).detach().numpy()
    extremes = {"amax": [[12, 15], [0, 0], [0, 1]], "amin": [[4, 6], [0, 0], [-2, -3]]}
    wanted = {"sum": total, "mean": total / 2, **extremes}[how]
    np.testing.assert_allclose(found.detach().numpy(), wanted)
    found.sum().backward()
    assert a.grad.layout is wend.sparse_csr and w.grad.abs().sum().item() > 0


# -- tables with sparse gradients ---------------------------------------------------------------

STEPS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("SparseAdam", {"lr": 0.1}),
]


def trained(t, name, options, bag):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(7, 3)).astype("float32")
    indices = rng.integers(0, 7, (5, 4))
    make = t.nn.EmbeddingBag if bag else t.nn.Embedding
    table = make(7, 3, sparse=True, _weight=t.tensor(weight), padding_idx=2)
    optimizer = getattr(t.optim, name)(table.parameters(), **options)
    found = []
    for step in range(3):
        optimizer.zero_grad()
        chosen = t.tensor((indices + step) % 7)
        loss = (table(chosen) ** 2).mean() + (table(chosen[:2]).sum() if step % 2 else 0)
        loss.backward()
        assert table.weight.grad.is_sparse
        found += [loss.item(), table.weight.grad.to_dense().numpy()]
        optimizer.step()
    state = optimizer.state_dict()["state"].get(0, {})
    for value in state.values():
        if isinstance(value, t.Tensor):
            found.append((value.to_dense() if value.is_sparse else value).numpy())
    return [*found, table.weight.detach().numpy()]


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize(("name", "options"), STEPS)
def test_steps_by_sparse_gradients(name, options, bag):
    found = trained(wend, name, options, bag)
    if torch is not None:
        for ours, theirs in zip(found, trained(torch, name, options, bag), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


def test_sparse_and_dense_gradients_add_up():
    weight = wend.nn.Parameter(wend.arange(6.0).reshape(3, 2))
    indices = wend.tensor([2, 0, 2])
    looked_up = F.embedding(indices, weight, sparse=True)
    (g,) = wend.autograd.grad(looked_up.sum(), weight)
    assert g.is_sparse and g._indices().tolist() == [[2, 0, 2]] and g._nnz() == 3
    wanted = [[1, 1], [0, 0], [2, 2]]
    for _ in range(3):
        weight.grad = None
        F.embedding(indices, weight, sparse=True).sum().backward()
        assert weight.grad.is_sparse and weight.grad.to_dense().tolist() == wanted
        F.embedding(indices, weight, sparse=True).sum().backward()
        assert weight.grad.is_sparse and weight.grad._nnz() == 6
        weight.sum().backward()
        assert not weight.grad.is_sparse and weight.grad.tolist() == [[3, 3], [1, 1], [5, 5]]
        F.embedding(indices, weight, sparse=True).sum().backward()
        assert weight.grad.tolist() == [[4, 4], [1, 1], [7, 7]]
        weight.grad = None
        (F.embedding(indices, weight, sparse=True).sum() + weight.sum()).backward()
        assert not weight.grad.is_sparse and weight.grad.tolist() == [[2, 2], [1, 1], [3, 3]]
    F.embedding(indices, weight * 2, sparse=True).sum().backward()  # no leaf: a dense gradient
    weight.grad = None
    F.embedding(indices, weight, sparse=True).sum().backward()
    total = wend.nn.utils.clip_grad_norm_([weight], 1.0)
    assert total.item() == pytest.approx(10**0.5)
    assert weight.grad.to_dense().norm().item() == pytest.approx(1.0, rel=1e-4)


def test_many_rows_are_added_up_alike():
    from wend._engine.ops.indexing.index_dim import MANY, EmbeddingAdjoint

    rng = np.random.default_rng(3)
    n = MANY // 64 + 5
    indices, g = rng.integers(0, 50, n), rng.normal(size=(n, 64)).astype("float32")
    rule = EmbeddingAdjoint.of(("T", "T", "I", "I"))
    assert rule._added(g, indices, 50, 3).tobytes() == rule.reference(g, indices, 50, 3).tobytes()


# -- copies, files and refusals -----------------------------------------------------------------


def test_copies_and_files(tmp_path):
    names = {key: value for key, value in parts(wend).items() if key in "xkcqbh"}
    for x in names.values():
        for y in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
            assert str(y) == str(x)
    module = wend.nn.Linear(2, 2)
    module.register_buffer("graph", names["x"])
    file = io.BytesIO()
    wend.save({**names, "state": module.state_dict()}, file)
    file.seek(0)
    loaded = wend.load(file)
    assert all(str(loaded[key]) == str(x) for key, x in names.items())
    module.graph.zero_()
    module.load_state_dict(loaded["state"])
    assert module.double().graph.to_dense().tolist() == [[0, 0, 4], [4, 0, 5]]
    if torch is not None:
        torch.save({"c": parts(torch)["c"]}, tmp_path / "c")
        assert str(wend.load(tmp_path / "c")["c"]) == str(names["c"])
        wend.save(names, tmp_path / "w")
        assert str(torch.load(tmp_path / "w")["q"]) == str(names["q"])


def test_views_in_files_can_be_detached():
    file = io.BytesIO()
    wend.save(wend.arange(6.0).reshape(2, 3).t(), file)
    file.seek(0)
    assert wend.load(file).detach().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_tensors_like_another_and_new_sizes():
    names = parts(wend)
    c, x = names["c"], names["x"]
    assert wend.ones_like(c).values().tolist() == [1, 1, 1] and wend.rand_like(c).is_sparse_csr
    assert wend.empty_like(x)._nnz() == 0 and wend.zeros(2, 2, layout=wend.sparse_csr)._nnz() == 0
    with pytest.raises(NotImplementedError):
        wend.ones_like(x)
    assert x.clone().sparse_resize_((4, 5), 2, 0).shape == (4, 5)
    assert x.clone().sparse_resize_and_clear_((1, 5, 2), 2, 1).values().shape == (0, 2)
    with pytest.raises(GraphError, match="shrink"):
        x.clone().sparse_resize_((1, 3), 2, 0)
    u, s, v = wend.svd_lowrank(c, 2)
    np.testing.assert_allclose(((u * s) @ v.t()).numpy(), c.to_dense().numpy(), atol=1e-5)


REFUSED = [
    ("x + 1", GraphError, "dense"),
    ("x + d", GraphError, "add\\(dense, sparse\\)"),
    ("x.exp()", NotImplementedInWend, "exp: not available for sparse"),
    ("x.numpy()", ArgumentTypeError, "to_dense"),
    ("x.values()", GraphError, "uncoalesced"),
    ("x.indices()", GraphError, "uncoalesced"),
    ("c.indices()", GraphError, "coordinate"),
    ("x.crow_indices()", GraphError, "compressed"),
    ("d.values()", GraphError, "sparse tensor layout"),
    ("x / d", GraphError, "scalar"),
    ("x @ d", RuntimeError, "multiplied"),
    ("x[2]", IndexOutOfRange, "out of range"),
    ("t.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,))", GraphError, "found index 5"),
    ("t.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (3,))", GraphError, "same nnz"),
    ("t.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 4))", GraphError, "len\\(size\\)"),
    ("t.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2], (2, 2))", GraphError, "entries"),
    ("t.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2], (2, 2))", GraphError, "rise"),
    ("t.ones(2, layout=t.sparse_coo)", NotImplementedInWend, "sparse_coo"),
    ("x.clone().copy_(d)", GraphError, "copy_"),
    ("t.cat([x, d])", GraphError, "cat"),
]


@pytest.mark.parametrize(("text", "error", "message"), REFUSED)
def test_refusals(text, error, message):
    with pytest.raises(error, match=message):
        eval(text, parts(wend))


def test_optimizers_without_rules_refuse_sparse_gradients():
    table = wend.nn.Embedding(4, 2, sparse=True)
    table(wend.tensor([1, 1])).sum().backward()
    for name in ("Adam", "RMSprop", "AdamW"):
        with pytest.raises(GraphError, match=f"{name} does not support sparse gradients"):
            getattr(wend.optim, name)(table.parameters()).step()
    for name in ("SGD", "Adagrad"):
        with pytest.raises(GraphError, match="weight_decay"):
            getattr(wend.optim, name)(table.parameters(), weight_decay=0.1).step()
    with pytest.raises(GraphError, match="scale_grad_by_freq"):
        F.embedding(wend.tensor([0]), table.weight, scale_grad_by_freq=True, sparse=True)
    with pytest.raises(ValueError, match="max mode"):
        F.embedding_bag(wend.tensor([[0]]), table.weight, mode="max", sparse=True)


def test_invariants_are_asked_for():
    check = sparse.check_sparse_tensor_invariants
    assert not check.is_enabled()
    with check():
        assert check.is_enabled()
    assert check()(check.is_enabled)() and not check.is_enabled()
