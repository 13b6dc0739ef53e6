"""Names of `torch` and methods of `Tensor` that programs rarely use, against PyTorch's."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402

RNG = np.random.default_rng(0)


def both(array, dtype=None):
    """The values in PyTorch and in Wend."""
    theirs, ours = torch.tensor(array), wend.tensor(array)
    if dtype is None:
        return theirs, ours
    return theirs.to(getattr(torch, dtype)), ours.to(getattr(wend, dtype))


def same(ours, theirs, tolerance=0.0):
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    a, b = ours.detach(), theirs.detach()
    if str(a.dtype) == "torch.bfloat16":
        a, b = a.float(), b.float()
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


# -- methods of Tensor ----------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_polygamma(n, dtype):
    theirs, ours = both([[1.0, 2.0, 3.5], [0.5, 7.0, 1.0]], dtype)
    if dtype == "int64":
        theirs, ours = theirs + 1, ours + 1
    same(ours.polygamma(n), theirs.polygamma(n), 1e-5)
    same(ours.polygamma(n=n), theirs.polygamma(n=n), 1e-5)


def test_polygamma_in_place():
    theirs, ours = both([1.0, 2.5])
    assert ours.polygamma_(1) is ours
    same(ours, theirs.polygamma_(1), 1e-5)
    x, y = (t.requires_grad_() for t in both([1.0, 2.5]))
    for t in (x, y):
        (t * 2).polygamma_(1).sum().backward()
    same(y.grad, x.grad, 1e-5)
    with pytest.raises(RuntimeError):
        torch.arange(1, 3).polygamma_(1)
    with pytest.raises(RuntimeError, match="polygamma_"):
        wend.arange(1, 3).polygamma_(1)
    with pytest.raises((RuntimeError, ValueError)):
        wend.ones(2).polygamma(-1)


def test_as_strided_in_place():
    theirs, ours = both(np.arange(6.0))
    back = wend.as_strided_(ours, (2, 2), (1, 2), 1)
    assert back is ours
    same(ours, torch.as_strided_(theirs, (2, 2), (1, 2), 1))
    theirs, ours = both(np.arange(6.0))
    same(wend.as_strided_(input=ours, size=(3,), stride=(2,)), theirs.as_strided_((3,), (2,)))


def test_names_and_padding_of_dense_tensors():
    assert wend.ones(2).name is None
    assert torch.ones(2).name is None
    with pytest.raises((RuntimeError, TypeError), match="dense"):
        wend.ones(2).to_padded_tensor(0.0)
    ragged = wend.nested.nested_tensor([wend.ones(2), wend.ones(3)])
    assert ragged.to_padded_tensor(0.0).tolist() == [[1, 1, 0], [1, 1, 1]]


def test_what_pytorch_has_removed_names_its_successor():
    with pytest.raises(RuntimeError):
        torch.ones(2, 2).solve(torch.ones(2, 2))
    with pytest.raises(RuntimeError, match=r"linalg\.solve"):
        wend.ones(2, 2).solve(wend.ones(2, 2))


# -- sparse products ------------------------------------------------------------------------


def sparse(t, array):
    return t.tensor(array).to_sparse()


A = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
B = RNG.normal(size=(3, 3))


@pytest.mark.parametrize("name", ["spmm", "dsmm", "smm"])
def test_products_by_keyword(name):
    theirs = getattr(torch, name)(input=sparse(torch, A), mat2=torch.tensor(B))
    ours = getattr(wend, name)(input=sparse(wend, A), mat2=wend.tensor(B))
    same(ours.to_dense(), theirs.to_dense(), 1e-12)
    again = getattr(wend, name)(sparse(wend, A), wend.tensor(B))
    same(again.to_dense(), theirs.to_dense(), 1e-12)


@pytest.mark.parametrize("name", ["saddmm", "sspaddmm", "hspmm"])
def test_products_with_a_given_result(name):
    results = []
    for t in (wend, torch):
        x, y = sparse(t, A), t.tensor(B)
        if name == "hspmm":
            out = t.zeros(3, 3, dtype=t.float64).to_sparse(1)
            back = t.hspmm(x, y, out=out)
        else:
            out = sparse(t, np.eye(3))
            back = getattr(t, name)(x, x, y, beta=2, alpha=3, out=out)
        assert back is out
        results.append(out.to_dense())
    same(*results, 1e-12)


def test_sparse_methods_of_dense_tensors_ask_for_sparse():
    x, s = wend.ones(3, 3), sparse(wend, A)
    for call in (
        lambda: x.sparse_resize_([3, 3], 2, 0),
        lambda: x.sparse_resize_and_clear_([3, 3], 2, 0),
        lambda: x.resize_as_sparse_(s),
        lambda: wend.resize_as_sparse_(x, s),
    ):
        with pytest.raises(RuntimeError, match="sparse"):
            call()


def test_resize_as_sparse():
    theirs = torch.resize_as_sparse_(torch.zeros(2, 2).to_sparse(), sparse(torch, A))
    ours = wend.resize_as_sparse_(wend.zeros(2, 2).to_sparse(), sparse(wend, A))
    assert tuple(ours.shape) == tuple(theirs.shape) == (3, 3)
    assert ours._nnz() == theirs._nnz() == 0


# -- embedding_bag --------------------------------------------------------------------------

WEIGHT = RNG.normal(size=(6, 3)).astype(np.float32)
INDICES = np.array([1, 2, 4, 4, 0, 3, 5, 4])


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("offsets", [[0], [0, 2, 2, 5], [0, 0, 8], [0, 3, 8]], ids=str)
@pytest.mark.parametrize("rest", [(), (4,), (-2,), (None,)], ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_embedding_bag(mode, offsets, rest, last):
    if last and offsets[-1] != 8:
        offsets = [*offsets, 8]  # PyTorch's mean and maximum take no notice of another end
    results = []
    for t in (wend, torch):
        weight = t.tensor(WEIGHT).requires_grad_()
        found = t.embedding_bag(
            weight, t.tensor(INDICES), t.tensor(offsets), False, mode, False, None, last, *rest
        )
        found[0].sin().sum().backward()
        results.append((*found, weight.grad))
    ours, theirs = results
    same(ours[0], theirs[0], 1e-6)
    same(ours[4], theirs[4], 1e-6)
    if mode:  # for sums PyTorch leaves the others out, or zero
        for mine, expected in zip(ours[1:4], theirs[1:4], strict=True):
            same(mine, expected)
    else:
        sizes = np.diff([*offsets, 8] if not last else offsets)
        np.testing.assert_array_equal(ours[1].numpy(), np.repeat(np.arange(len(sizes)), sizes))


def test_embedding_bag_of_nothing():
    empty = wend.embedding_bag(
        wend.tensor(WEIGHT), wend.tensor([], dtype=wend.int64), wend.tensor([0, 0]), mode=2
    )
    theirs = torch.embedding_bag(
        torch.tensor(WEIGHT), torch.tensor([], dtype=torch.int64), torch.tensor([0, 0]), mode=2
    )
    for mine, expected in zip(empty, theirs, strict=True):
        same(mine, expected)


def test_embedding_bag_with_weights_and_int32():
    results = []
    for t in (wend, torch):
        weights = t.linspace(0, 1, 8).requires_grad_()
        found = t.embedding_bag(
            t.tensor(WEIGHT),
            t.tensor(INDICES, dtype=t.int32),
            t.tensor([0, 3], dtype=t.int32),
            per_sample_weights=weights,
        )
        found[0].sin().sum().backward()
        results.append((found[0], weights.grad))
    for mine, expected in zip(*results, strict=True):
        same(mine, expected, 1e-6)


def test_embedding_bag_refuses():
    args = wend.tensor(WEIGHT), wend.tensor(INDICES), wend.tensor([0, 2])
    with pytest.raises(RuntimeError, match="mode"):
        wend.embedding_bag(*args, mode=3)
    with pytest.raises(RuntimeError, match="from -6 to 5"):
        wend.embedding_bag(*args, False, 0, False, None, False, 6)


# -- autocast by the device's name, and names of classes ------------------------------------


@pytest.mark.parametrize("device", ["xla", "ipu", "cpu", "gpu"])
def test_autocast_of_a_device(device):
    name = "cuda" if device == "gpu" else device
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(torch, f"get_autocast_{device}_dtype")()
    assert str(getattr(wend, f"get_autocast_{device}_dtype")()) == str(theirs)
    assert str(wend.get_autocast_dtype(name)) == str(torch.get_autocast_dtype(name))
    if device in ("xla", "ipu"):
        setter = getattr(wend, f"set_autocast_{device}_dtype")
        setter(wend.float16)
        assert getattr(wend, f"get_autocast_{device}_dtype")() is wend.float16
        setter(getattr(wend, str(theirs).removeprefix("torch.")))
        assert getattr(wend, f"is_autocast_{device}_enabled")() is False
        getattr(wend, f"set_autocast_{device}_enabled")(True)
        assert wend.is_autocast_enabled(name)
        getattr(wend, f"set_autocast_{device}_enabled")(False)


def test_classes_are_the_same_under_both_names():
    assert wend.GradScaler is wend.amp.GradScaler
    assert wend.Future is wend.futures.Future
    assert wend.Generator().device == wend.device("cpu")


def test_a_file_that_requires_gradients(tmp_path):
    np.arange(4.0).tofile(tmp_path / "x")
    made = wend.from_file(str(tmp_path / "x"), size=3, dtype=wend.float64, requires_grad=True)
    assert made.requires_grad
    assert made.tolist() == [0, 1, 2]
    assert wend.from_file(str(tmp_path / "x"), requires_grad=True).requires_grad


def test_symbols_have_the_methods_of_ints():
    from wend._engine.core.symbolic import Guards, SymInt, SymNumber

    guards = Guards()
    for n in (0, 1, 5, 8, 1023):
        extent = SymInt((0, 0, 0), n, guards)
        assert extent.bit_length() == n.bit_length()
        assert SymInt((0, 0, 0), -n, guards).bit_length() == n.bit_length()
        assert extent.conjugate() is extent
        assert extent.as_integer_ratio() == (extent, 1)
    assert guards.items
    number = SymNumber((1, 0), 2, 0.5)
    assert number.conjugate() is number
    for method in (number.hex, number.is_integer, number.as_integer_ratio):
        with pytest.raises(TypeError, match="read inside a rule"):
            method()
    with pytest.raises(TypeError, match="complex"):
        SymNumber((1, 0), 3).conjugate()
