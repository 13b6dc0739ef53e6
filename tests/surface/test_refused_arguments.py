"""Arguments that PyTorch refuses by their values, and `out` of another dtype."""

import numpy as np
import pytest

import wend

F = wend.nn.functional
X = np.linspace(-2.0, 2.0, 12, dtype=np.float32).reshape(3, 4)

REFUSED = [
    ("t.isclose(x, x, rtol=-1.0)", RuntimeError),
    ("t.isclose(x, x, atol=-1e-9)", RuntimeError),
    ("t.allclose(x, x, atol=-1.0)", RuntimeError),
    ("t.nn.functional.softshrink(x, -0.5)", RuntimeError),
    ("t.nn.functional.hardtanh(x, 1.0, -1.0)", ValueError),
    ("t.nn.functional.multi_margin_loss(x, i, weight=x)", ValueError),
    ("t.narrow(x, 1, t.tensor([1, 2]), 1)", RuntimeError),
    ("x.narrow(1, t.tensor(True), 1)", RuntimeError),
    ("t.signal.windows.hann(4, layout=t.sparse_coo)", ValueError),
]


@pytest.mark.parametrize(("call", "error"), REFUSED)
def test_values_that_are_refused(call, error):
    torch = pytest.importorskip("torch")
    for t in (torch, wend):
        with pytest.raises(error):
            eval(call, {"t": t, "x": t.tensor(X), "i": t.tensor([0, 1, 2])})


def test_narrow_takes_a_tensor_as_start():
    x = wend.tensor(X)
    for made in (
        wend.narrow(x, 1, wend.tensor(1), 2),
        x.narrow(1, start=wend.tensor(-3), length=2),
        x.narrow(dim=1, start=1, length=2),
    ):
        np.testing.assert_array_equal(made.numpy(), X[:, 1:3])


#: Ops with and without a conversion of the result to the dtype of `out`.
OUTS = [
    *("add mul sub div exp sin maximum atan2 sum mean cumsum prod sqrt".split()),
    *("abs neg ceil floor trunc sign mm matmul amax tril gather cat stack softmax".split()),
]
MORE = {
    "add": ("x",), "mul": ("x",), "sub": ("x",), "div": ("x",), "maximum": ("x",),
    "atan2": ("x",), "sum": ("0",), "mean": ("0",), "cumsum": ("0",),
    "prod": ("0",), "mm": ("x.T",), "matmul": ("x.T",), "amax": ("0",), "gather": ("0", "k"),
    "softmax": ("0",),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTS)
def test_out_of_another_dtype(name):
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, wend):
        x = t.tensor(X)
        scope = {"t": t, "x": x, "k": t.tensor([[0, 1, 2, 0]])}
        args = [eval(a, scope) for a in MORE.get(name, ())]
        first = (x, x) if name in ("cat", "stack") else x
        made = getattr(t, name)(first, *args)
        out = t.zeros(tuple(made.shape), dtype=t.float64)
        try:
            getattr(t, name)(first, *args, out=out)
            found.append(out.tolist())
        except RuntimeError:
            found.append(None)
    assert (found[0] is None) == (found[1] is None)
    if found[0] is not None:
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 0x9E3779B97F4A7C15, -(2**63)])
def test_numbers_of_64_bits_wrap_around(number):
    x = wend.arange(4)
    expected = np.arange(4).astype(np.uint64) * np.uint64(number % 2**64)
    np.testing.assert_array_equal((x * number).numpy(), expected.astype(np.int64))
    filled = x.masked_fill(x == 1, number).numpy()
    assert filled[1] == np.uint64(number % 2**64).astype(np.int64)
    assert (x.float() * number)[1].item() == np.float32(number)


def test_numbers_written_to_places_wrap_around():
    x = wend.zeros(3, dtype=wend.int8)
    assert x.scatter(0, wend.tensor([1]), 200).tolist() == [0, -56, 0]
    assert x.bfloat16().masked_fill(x == 0, 2**70)[0].item() == 2.0**70


def test_nearest_sampling_has_second_gradients():
    """The slope by the grid is zeros, and has a gradient of zeros."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    image, grid = rng.normal(size=(1, 2, 4, 4)), rng.uniform(-0.9, 0.9, size=(1, 3, 3, 2))
    found = []
    for t in (torch, wend):
        x, g = (t.tensor(a, requires_grad=True) for a in (image, grid))
        y = t.nn.functional.grid_sample(x, g, mode="nearest", align_corners=False)
        first = t.autograd.grad((y * y).sum(), (x, g), create_graph=True)
        second = t.autograd.grad(sum((d * d).sum() for d in first), (x, g))
        found.append([d.detach().numpy() for d in (y, *first, *second)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-12)


def test_insert_keeps_names():
    """As PyTorch: numbers move on, names stay, and a named module cannot be moved."""
    torch = pytest.importorskip("torch")
    for t in (torch, wend):
        nn = t.nn
        made = nn.Sequential()
        made.add_module("first", nn.Identity())
        made.append(nn.Tanh())
        made.insert(1, nn.ReLU())
        assert [n for n, _ in made.named_children()] == ["first", "1", "2"]
        with pytest.raises(KeyError):
            made.insert(0, nn.ReLU())
        rows = nn.ModuleList([nn.Tanh()])
        rows.insert(0, nn.ReLU())
        assert [type(m).__name__ for m in rows] == ["ReLU", "Tanh"]
