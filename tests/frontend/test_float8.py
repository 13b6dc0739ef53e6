"""Tensors of float8: bits of conversions, files and refusals as PyTorch's."""

import copy
import io
import pickle

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

TYPES = "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz".split()
BITS = np.arange(256, dtype=np.uint8)


def numbers():
    """Numbers of all sizes, halfway cases between the numbers of 8 bits, and the special values."""
    spread = np.logspace(-12, 6, 997)
    special = [0.0, -0.0, np.inf, -np.inf, 448, 464, 465, 480, 57344, 61440, 65536, 240, 248, 256]
    halves = [(2 * k + 1) * 2.0**e for k in range(8, 16) for e in range(-24, 16)]
    return np.concatenate([np.linspace(-600, 600, 801), spread, -spread, special, halves])


def to_bits(library, values, source, name):
    x = library.tensor(values).to(getattr(library, source))
    return x.to(getattr(library, name)).view(library.uint8).numpy()


@pytest.mark.parametrize("source", "float32 float64 float16 bfloat16 int64 uint8 bool".split())
@pytest.mark.parametrize("name", TYPES)
def test_bits_of_conversions(name, source):
    values = numbers() if source not in ("int64", "uint8") else np.arange(0, 250.0)
    want, have = (to_bits(library, values, source, name) for library in (torch, wend))
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("name", TYPES)
def test_nan_in_and_out(name):
    nan = np.array([np.nan], np.float32)
    assert to_bits(wend, nan, "float32", name) == to_bits(torch, nan, "float32", name)


@pytest.mark.parametrize("target", ["float32", "float64", "float16", "bfloat16", "bool"])
@pytest.mark.parametrize("name", TYPES)
def test_numbers_of_all_bits(name, target):
    def values(library):
        x = library.tensor(BITS).view(getattr(library, name))
        return x.to(getattr(library, target)).double().numpy()

    np.testing.assert_array_equal(values(wend), values(torch))


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("name", TYPES)
def test_from_type_to_type(name, target):
    def bits(library):
        x = library.tensor(BITS).view(getattr(library, name))
        return x.to(getattr(library, target)).view(library.uint8).numpy()

    np.testing.assert_array_equal(bits(wend), bits(torch))


@pytest.mark.parametrize("name", TYPES)
def test_limits_and_facts(name):
    mine, theirs = getattr(wend, name), getattr(torch, name)
    a, b = wend.finfo(mine), torch.finfo(theirs)
    for fact in "bits max min tiny smallest_normal resolution dtype".split():
        assert getattr(a, fact) == getattr(b, fact)
    x, y = (library.ones(2, 3, dtype=d) for library, d in ((wend, mine), (torch, theirs)))
    assert repr(x) == repr(y) and repr(x.dtype) == repr(y.dtype)
    assert x.type() == y.type()
    assert (x.element_size(), x.nbytes, x.is_floating_point()) == (1, 6, True)
    assert wend.promote_types(mine, mine) is mine


MOVES = {
    "slice": lambda X, x: x[1:, 0],
    "index": lambda X, x: x[X.tensor([1, 0])],
    "reshape": lambda X, x: x.reshape(3, 2),
    "transposed": lambda X, x: x.T.contiguous(),
    "cat": lambda X, x: X.cat([x, x], 1),
    "stack": lambda X, x: X.stack([x, x]),
    "expand": lambda X, x: x[:1].expand(4, 3),
    "repeat": lambda X, x: x.repeat(2, 1),
    "index_select": lambda X, x: x.index_select(0, X.tensor([1])),
    "chunk": lambda X, x: x.chunk(3, 1)[2],
    "where": lambda X, x: X.where(X.tensor([[True], [False]]), x, x.clone()),
    "abs": lambda X, x: x.abs(),
    "clone": lambda X, x: x.clone(),
    "deepcopy": lambda X, x: copy.deepcopy(x),
    "fill_": lambda X, x: x.clone().fill_(2.5),
    "zero_": lambda X, x: x.clone().zero_(),
    "copy_": lambda X, x: x.clone().copy_(X.arange(3.0)),
    "copied from": lambda X, x: X.zeros(2, 3).copy_(x),
    "written": lambda X, x: written(x),
    "zeros_like": lambda X, x: X.zeros_like(x),
    "ones_like float": lambda X, x: X.ones_like(x, dtype=X.float32),
    "full": lambda X, x: X.full((2,), 1.3, dtype=x.dtype),
    "tensor": lambda X, x: X.tensor([0.1, 0.2], dtype=x.dtype),
    "float": lambda X, x: x.float(),
    "half": lambda X, x: x.half(),
    "type_as": lambda X, x: x.type_as(X.ones(1)),
    "same type": lambda X, x: x.to(x.dtype),
    "eq": lambda X, x: x == x.clone(),
    "isnan": lambda X, x: x.isnan(),
    "int8": lambda X, x: x.view(X.int8),
}


def written(x):
    y = x.clone()
    y[0] = 3.3
    return y


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("move", MOVES)
def test_what_moves_elements(move, name):
    def outcome(library):
        x = (library.arange(6.0).reshape(2, 3) - 2.3).to(getattr(library, name))
        y = MOVES[move](library, x)
        return str(y.dtype), tuple(y.shape), y.float().tolist()

    assert outcome(wend) == outcome(torch)


REFUSED = {
    "add": lambda X, x: x + x,
    "add number": lambda X, x: x + 1,
    "add float": lambda X, x: x + X.ones(2),
    "mul": lambda X, x: x * 2,
    "neg": lambda X, x: -x,
    "lt": lambda X, x: x < x,
    "relu": lambda X, x: x.relu(),
    "exp": lambda X, x: x.exp(),
    "sum": lambda X, x: x.sum(),
    "max": lambda X, x: x.max(),
    "sort": lambda X, x: x.sort(),
    "add_": lambda X, x: x.clone().add_(1),
    "numpy": lambda X, x: x.numpy(),
    "cat of types": lambda X, x: X.cat([x, x.to(X.float8_e5m2), X.ones(2)]) if X is wend else 1 / 0,
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("call", REFUSED)
def test_arithmetic_is_refused(call, name):
    errors = []
    for library in (torch, wend):
        with pytest.raises(Exception) as caught:
            REFUSED[call](library, library.ones(2).to(getattr(library, name)))
        errors.append(caught.value)
    if isinstance(errors[0], RuntimeError | TypeError):
        assert isinstance(errors[1], RuntimeError | TypeError)
    assert "float8" in str(errors[1])


def test_memory_is_shared_with_the_bits():
    bits = wend.tensor([0x38, 0x40], dtype=wend.uint8)
    x = bits.view(wend.float8_e4m3fn)
    assert x.tolist() == [1.0, 2.0]
    bits[0] = 0x40
    assert x.tolist() == [2.0, 2.0]
    x[1:].fill_(1.0)
    assert bits.tolist() == [0x40, 0x38]


def test_gradients_pass_conversions():
    def gradient(library):
        x = library.tensor([[0.3, 1.7], [2.2, -5.1]], requires_grad=True)
        y = library.cat([x.to(library.float8_e4m3fn).T[1:], x.to(library.float8_e4m3fn)]).float()
        (y * library.arange(6.0).reshape(3, 2)).sum().backward()
        return x.grad.tolist(), y.detach().tolist()

    assert gradient(wend) == gradient(torch)
    with pytest.raises(RuntimeError, match="keep a leaf of float32"):
        wend.ones(2).to(wend.float8_e5m2).requires_grad_()
    with wend.no_grad():
        assert not wend.ones(2, requires_grad=True).to(wend.float8_e5m2).requires_grad


def test_layers_say_what_they_cannot():
    with pytest.raises(RuntimeError, match="float8_e5m2"):
        wend.nn.Linear(2, 2).to(wend.float8_e5m2)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("way", ["wend", "torch to wend", "wend to torch", "pickle"])
def test_files(way, name):
    values = [[0.1, -3.0], [200.0, 1e-3]]
    source = torch if way == "torch to wend" else wend
    x = source.tensor(values).to(getattr(source, name))
    if way == "pickle":
        y = pickle.loads(pickle.dumps(x))
    else:
        file = io.BytesIO()
        source.save({"x": x, "part": x[:, 1]}, file)
        file.seek(0)
        target = torch if way == "wend to torch" else wend
        content = target.load(file)
        y = content["x"]
        assert content["part"].float().tolist() == x[:, 1].float().tolist()
    assert str(y.dtype) == str(x.dtype) and y.float().tolist() == x.float().tolist()


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_safetensors(tmp_path, name):
    from wend.serialization.safetensors import load_file, save_file

    x = wend.tensor([[0.1, -3.0], [448.0, 1e-3]]).to(getattr(wend, name))
    save_file({"x": x, "y": wend.ones(3)}, tmp_path / "a.safetensors")
    y = load_file(tmp_path / "a.safetensors")["x"]
    assert y.dtype is x.dtype and y.tolist() == x.tolist()
