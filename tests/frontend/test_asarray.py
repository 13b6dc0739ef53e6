"""`asarray`, `as_tensor` and `tensor` of memory of other objects, against PyTorch's."""

import array
import ctypes

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")


class Interface:
    """An object with `__array_interface__`."""

    def __init__(self, memory):
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__


class Pack:
    """An object with DLPack, of the protocol before copies could be asked for."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack__(self, stream=None):
        return self.memory.__dlpack__()

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


def floats():
    return np.arange(6, dtype=np.float32)


SOURCES = {
    "array": lambda X: floats(),
    "strided": lambda X: floats()[::2],
    "transposed": lambda X: floats().reshape(2, 3).T,
    "interface": lambda X: Interface(floats()),
    "dlpack": lambda X: Pack(X.ones(2, 3)),
    "dlpack of numpy": lambda X: Pack(floats()),
    "capsule": lambda X: X.utils.dlpack.to_dlpack(X.ones(3)),
    "array of Python": lambda X: array.array("f", [1, 2, 3]),
    "array of ints": lambda X: array.array("i", [1, 2, 3, 4]),
    "bytes": lambda X: b"abcdefgh",
    "bytearray": lambda X: bytearray(b"abcdefgh"),
    "memoryview": lambda X: memoryview(floats()),
    "ctypes": lambda X: (ctypes.c_float * 4)(1, 2, 3, 4),
    "tensor": lambda X: X.tensor([1.0, 2.0]),
    "number of NumPy": lambda X: np.int64(2),
    "list": lambda X: [1, 2.5],
    "number": lambda X: 3,
    "text": lambda X: "ab",
    "nothing": lambda X: None,
    "set": lambda X: {1},
}
OPTIONS = {
    "": lambda X: {},
    "float64": lambda X: {"dtype": X.float64},
    "uint8": lambda X: {"dtype": X.uint8},
    "copy": lambda X: {"copy": True},
    "no copy": lambda X: {"copy": False},
    "grad": lambda X: {"requires_grad": True},
    "float64 grad": lambda X: {"dtype": X.float64, "requires_grad": True},
}


def described(library, function, source, option):
    """What comes out, and whether this is an error."""
    try:
        y = getattr(library, function)(SOURCES[source](library), **OPTIONS[option](library))
    except Exception as error:
        return error
    values = y.detach().flatten().tolist()
    return str(y.dtype), tuple(y.shape), y.stride(), y.requires_grad, y.is_leaf, repr(values)


CASES = [
    (function, source, option)
    for function in ("asarray", "as_tensor", "tensor")
    for source in SOURCES
    for option in OPTIONS
    if function == "asarray" or ("copy" not in option and "grad" not in option)
    if function != "tensor" or source not in ("transposed", "strided")
]
#: PyTorch asks such an object for no copy by a keyword that the older protocol lacks.
OLDER = {("asarray", source, "no copy") for source in ("dlpack", "dlpack of numpy")}


@pytest.mark.parametrize(("function", "source", "option"), CASES)
def test_as_pytorch(function, source, option):
    if (function, source, option) in OLDER:
        pytest.skip("PyTorch refuses objects of the older protocol")
    want, have = (described(library, function, source, option) for library in (torch, wend))
    if isinstance(want, Exception):
        assert isinstance(have, Exception)
        if type(want) in (TypeError, ValueError):
            assert isinstance(have, type(want))
    else:
        assert have == want


@pytest.mark.parametrize("source", ["bytearray", "memoryview", "array of Python", "ctypes"])
def test_buffers_are_shared_unless_copied(source):
    memory = SOURCES[source](wend)
    shared, copied = wend.asarray(memory), wend.asarray(memory, copy=True)
    before = copied.tolist()
    memoryview(memory).cast("B")[:4] = bytes(4)
    assert shared[0] == 0 and copied.tolist() == before
    shared[0] = 1.5
    assert bytes(memoryview(memory).cast("B")[:4]) == np.float32(1.5).tobytes()


def test_objects_with_dlpack_are_shared():
    memory = floats()
    shared = wend.asarray(Pack(memory))
    memory[0] = 5
    assert shared[0] == 5
    assert wend.tensor(Pack(memory)).tolist() == memory.tolist()
    with pytest.raises(ValueError, match="can't alias"):
        wend.asarray(Pack(memory), dtype=wend.float64, copy=False)


def test_sizes_that_do_not_fit_are_told():
    for library in (torch, wend):
        with pytest.raises(ValueError, match=r"buffer length \(3 bytes\)"):
            library.asarray(b"abc")
    capsule = wend.utils.dlpack.to_dlpack(wend.ones(2))
    wend.asarray(capsule)
    with pytest.raises(RuntimeError, match="used once"):
        wend.asarray(capsule)


def test_a_tensor_that_is_to_require_grad_is_marked():
    for library in (torch, wend):
        x = library.ones(2)
        assert library.asarray(x, requires_grad=True) is x and x.requires_grad
        y = library.asarray(x * 2)
        assert not y.requires_grad or y.grad_fn is not None
