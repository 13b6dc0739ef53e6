"""Results of ints and other small types, where PyTorch's rule is not the obvious rule."""

import math
from functools import reduce
from operator import xor

import numpy as np
import pytest

import wend as torch
from wend import masked
from wend._engine.base import config
from wend._engine.base.errors import ArgumentError, DTypeNotImplemented, ValuesRefused


def same(found, wanted):
    assert str(found.dtype).split(".")[-1] == str(wanted.dtype).split(".")[-1]
    np.testing.assert_allclose(found.numpy(), wanted.numpy())


@pytest.mark.parametrize(
    "numbers",
    [(0.0, -8.000001, -4.0), (1.0, 5.000001, 2.0), (-0.9, 2.1, 2.0), (0.5, 3.7, 0.5), (0, 7, 2)],
)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
def test_arange_counts_by_the_numbers_given(numbers, dtype):
    pytorch = pytest.importorskip("torch")
    try:
        wanted = pytorch.arange(*numbers, dtype=getattr(pytorch, dtype))
    except ValueError:  # a step of 0.5 is a step of 0 in int64
        with pytest.raises(ValueError, match="step must be nonzero"):
            torch.arange(*numbers, dtype=getattr(torch, dtype))
        return
    same(torch.arange(*numbers, dtype=getattr(torch, dtype)), wanted)


def test_arange_of_a_small_type_without_pytorch():
    assert torch.arange(0.0, -8.000001, -4.0, dtype=torch.int32).tolist() == [0, -4, -8]
    assert torch.arange(0.0, -8.000001, -4.0, dtype=torch.int64).tolist() == [0, -4]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_places_are_long_ints(dtype):
    rows, columns = torch.unravel_index(torch.tensor([3, 5, 0], dtype=dtype), (2, 3))
    assert rows.dtype is columns.dtype is torch.int64
    assert (rows.tolist(), columns.tolist()) == ([1, 1, 0], [0, 2, 0])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32])
def test_masked_running_sums_keep_the_dtype(dtype):
    x = torch.tensor([1, 2, 3]).to(dtype)
    mask = torch.tensor([True, False, True])
    sums, products = masked.cumsum(x, 0, mask=mask), masked.cumprod(x, 0, mask=mask)
    assert sums.dtype is products.dtype is dtype
    assert (sums.tolist(), products.tolist()) == ([1, 1, 4], [1, 1, 3])
    assert masked.cumsum(x, 0, dtype=torch.float64).dtype is torch.float64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64])
@pytest.mark.parametrize("keepdim", [False, True])
def test_masked_variances_keep_the_dtype(dtype, keepdim):
    x, mask = torch.tensor([[1.0, 2, 4], [3, 1, 0]]).to(dtype), torch.tensor([True, False, True])
    for correction in (1, 0.5):
        kept = [1.0, 4, 3, 0]
        found = masked.var(x, correction=correction, keepdim=keepdim, mask=mask)
        assert found.dtype is masked.std(x, keepdim=keepdim, mask=mask).dtype is dtype
        assert found.ndim == (2 if keepdim else 0)
        want = np.var(kept) * 4 / (4 - correction)
        np.testing.assert_allclose(abs(complex(found.item())), want, rtol=1e-2)


def test_softmin_of_unsigned_ints_wraps_first():
    x = torch.tensor([1, 2, 0], dtype=torch.uint8)
    got = torch.nn.functional.softmin(x, 0, dtype=torch.float64).numpy()
    powers = np.exp(np.array([255.0, 254.0, 0.0]) - 255)
    np.testing.assert_allclose(got, powers / powers.sum())
    signed = torch.nn.functional.softmin(x.long(), 0, dtype=torch.float64).numpy()
    np.testing.assert_allclose(signed, np.exp([-1, -2, 0]) / np.exp([-1, -2, 0]).sum())


def test_tensordot_of_small_ints_sums_a_paired_single_in_their_type():
    a = torch.tensor([[[2]]], dtype=torch.uint8)
    b = torch.tensor([[[200, 0]], [[200, 1]]], dtype=torch.uint8)
    got = torch.tensordot(a, b, dims=[[0, 1], [2, 0]])
    assert got.dtype is torch.uint8
    assert got.tolist() == [[401 * 2 % 256]]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["fweights", "aweights"])
def test_weights_of_cov_below_zero_are_refused_where_they_are_read(name, compiled):
    x = torch.tensor([[1.0, 2, 4], [3, 1, 0]])
    kind = torch.int64 if name == "fweights" else torch.float32
    weights = torch.tensor([1, -1, 2]).to(kind)
    with (
        config.override(compile=compiled, wait=compiled),
        pytest.raises(ValuesRefused, match=f"cov: {name} cannot be negative"),
    ):
        torch.cov(x, **{name: weights}).tolist()
    got = torch.cov(x, **{name: weights.abs()}).numpy()
    np.testing.assert_allclose(got, np.cov(x.numpy(), **{name: weights.abs().numpy()}), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("weight", ["int64", "float16", "float32", "float64"])
def test_a_cov_is_computed_in_the_wider_type_of_rows_and_weights(dtype, weight):
    rows, weights = [[1.0, 2.5, 4.125], [3, 1, 0.5]], [1, 3, 2]
    kind = "fweights" if weight == "int64" else "aweights"

    def found(lib):
        w = lib.tensor(weights).to(getattr(lib, weight))
        return lib.cov(lib.tensor(rows).to(getattr(lib, dtype)), **{kind: w})

    got = found(torch)
    wide = np.cov(np.array(rows), **{kind: np.array(weights)})
    np.testing.assert_allclose(got.double().numpy(), wide, rtol=2e-2)
    pytorch = pytest.importorskip("torch")
    wanted = found(pytorch)
    assert str(got.dtype).removeprefix("torch.") == str(wanted.dtype).removeprefix("torch.")
    close = {2: 2e-2, 4: 1e-5, 8: 1e-10}[got.dtype.itemsize]
    np.testing.assert_allclose(got.double().numpy(), wanted.double().numpy(), rtol=close)


def test_weights_of_cov_that_are_no_number_pass():
    x = torch.tensor([[1.0, 2, 4]])
    assert math.isnan(torch.cov(x, aweights=torch.tensor([1.0, math.nan, 2])).item())


HASHED = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", HASHED)
def test_a_hash_is_the_exclusive_or_of_wide_elements(dtype, compiled):
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2 if dtype == "bool" else 100, size=(3, 5)).astype(np.float64)
    numbers *= -1 if dtype.startswith(("int", "float")) else 1
    wide = numbers if "float" in dtype else numbers.astype(np.int64)
    words = wide.view(np.uint64)
    with config.override(compile=compiled, wait=compiled):
        x = torch.tensor(numbers).to(getattr(torch, dtype))
        whole, rows = torch.hash_tensor(x), x.hash_tensor(1, keepdim=True)
        assert whole.dtype is rows.dtype is torch.uint64
        assert whole.item() == reduce(xor, words.ravel().tolist())
        assert rows.tolist() == [[reduce(xor, row)] for row in words.tolist()]


@pytest.mark.parametrize("dtype", HASHED)
def test_hashes_are_those_of_pytorch(dtype):
    pytorch = pytest.importorskip("torch")
    numbers = np.random.default_rng(1).integers(0, 2, size=(2, 3, 4)) * 1.5
    x, y = (lib.tensor(numbers).to(getattr(lib, dtype)) for lib in (torch, pytorch))
    for dim in ((), None, 0, (0, -1)):
        assert torch.hash_tensor(x, dim).tolist() == pytorch.hash_tensor(y, dim).tolist()


def test_what_has_no_hash():
    with pytest.raises(ArgumentError, match="Unknown hash_tensor mode: 1"):
        torch.hash_tensor(torch.ones(2), mode=1)
    with pytest.raises(DTypeNotImplemented, match=r"not implemented for torch\.complex64"):
        torch.hash_tensor(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ArgumentError, match="Expected reduction dim to be specified"):
        torch.hash_tensor(torch.ones(0, 3))
    with pytest.raises(IndexError, match="non-zero size"):
        torch.hash_tensor(torch.ones(0, 3), 0)
    assert torch.hash_tensor(torch.ones(0, 3), 1).shape == (0,)


def test_a_hash_needs_no_gradient_and_takes_its_place():
    x = torch.ones(3, requires_grad=True)
    assert not torch.hash_tensor(x).requires_grad
    out = torch.zeros((), dtype=torch.uint64)
    assert torch.hash_tensor(x, out=out) is out
    assert out.item() == np.float64(1).view(np.uint64)


ORDERED = {
    "sort": lambda lib, x: [*lib.sort(x), *lib.sort(x, descending=True)],
    "argsort": lambda lib, x: [lib.argsort(x, stable=True)],
    "msort": lambda lib, x: [lib.msort(x)],
    "topk": lambda lib, x: [lib.topk(x, 3)[0], lib.topk(x, 3, largest=False)[0]],
    "kthvalue": lambda lib, x: [*lib.kthvalue(x, 2)],
    "median": lambda lib, x: [lib.median(x), lib.nanmedian(x), *lib.nanmedian(x, 0)],
    "masked": lambda lib, x: [lib.nanmedian(lib.stack([x, x * 2]), 1)[0]],
    "unique": lambda lib, x: [lib.unique(x[:1]), lib.unique_consecutive(x[:1])],
    "extremes": lambda lib, x: [x.max(), x.argmax(), x.cummax(0)[0], x.cummin(0)[0], x.amin()],
    "places": lambda lib, x: [lib.searchsorted(lib.sort(x)[0], x)],
}


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_nan_is_the_greatest_in_every_type(name, dtype):
    numbers = [1.0, math.nan, 3.0, -2.0, math.inf, math.nan, 2.0]

    def found(lib, kind):
        return [t.tolist() for t in ORDERED[name](lib, lib.tensor(numbers).to(getattr(lib, kind)))]

    got = found(torch, dtype)
    np.testing.assert_equal(got, found(torch, "float64"))
    if name == "sort":
        np.testing.assert_equal(got[0], [-2, 1, 2, 3, math.inf, math.nan, math.nan])
    pytorch = pytest.importorskip("torch")
    np.testing.assert_equal(got, found(pytorch, dtype))


def test_rows_with_nan_are_ordered_in_bfloat16():
    rows = torch.tensor([[1.0, math.nan], [1.0, 2.0], [1.0, -3.0]])
    want = torch.unique(rows[1:], dim=0).tolist()
    assert torch.unique(rows[1:].bfloat16(), dim=0).tolist() == want
    levels = torch.tensor([0.5])
    got = torch.nanquantile(rows.flatten(), levels)
    assert got.tolist() == [1.0]
