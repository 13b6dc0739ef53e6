"""Products of ONNX's quantised ops by the kernels for bytes: exact, of all types."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import wend
from wend.onnx.importing.ops import byte_products, quantized

TYPES = list(itertools.product((np.uint8, np.int8), repeat=2))
RNG = np.random.default_rng(0)


def drawn(dtype, shape):
    info = np.iinfo(dtype)
    return np.asarray(RNG.integers(info.min, info.max + 1, shape)).astype(dtype)


def tensor(x):
    return None if x is None else wend.from_numpy(x)


@pytest.mark.parametrize("points", ["none", "numbers", "rows"])
@pytest.mark.parametrize(("of_a", "of_b"), TYPES)
def test_matrices(of_a, of_b, points):
    a, b = drawn(of_a, (5, 11)), drawn(of_b, (11, 7))
    za, zb = {
        "none": (None, None),
        "numbers": (drawn(of_a, ()), drawn(of_b, ())),
        "rows": (drawn(of_a, 5), drawn(of_b, 7)),
    }[points]
    left = a.astype(int) - (0 if za is None else za.astype(int).reshape(-1, 1))
    want = left @ (b.astype(int) - (0 if zb is None else zb.astype(int)))
    y = byte_products.matmul(*map(tensor, (a, za, b, zb)))
    assert y.dtype is wend.int32
    np.testing.assert_array_equal(y.numpy(), want)


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize(
    ("groups", "pads"), [(1, (0, 0, 0, 0)), (2, (1, 0, 2, 1)), (1, (1, 1, 1, 1))]
)
@pytest.mark.parametrize(("of_x", "of_w"), TYPES)
def test_convolutions(of_x, of_w, groups, pads, points):
    x, w = drawn(of_x, (2, 4, 6, 7)), drawn(of_w, (6, 4 // groups, 3, 2))
    zx, zw = (drawn(of_x, ()), drawn(of_w, 6)) if points else (None, None)
    x, zx, w, zw = map(tensor, (x, zx, w, zw))
    node = {"pads": pads, "group": groups, "strides": (2, 1), "dilations": (1, 2)}
    y = byte_products.convolve(node, x, zx, w, zw)
    floats = quantized.convolve(node, quantized._less(x, zx), quantized._channels(w, zw))
    np.testing.assert_array_equal(y.numpy(), floats.numpy())


def test_other_operands_are_left_to_floats():
    a = wend.ones((2, 3), dtype=wend.uint8)
    assert byte_products.matmul(a, None, wend.ones((4, 3, 2), dtype=wend.int8), None) is None
    assert byte_products.matmul(a, None, wend.ones((3, 2)), None) is None
    assert byte_products.matmul(a[:0], None, a.t(), None) is None


def test_a_weight_of_a_file_is_prepared_once_until_it_is_written_to(monkeypatch):
    onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
    helper, kinds = onnx.helper, onnx.TensorProto
    weight = drawn(np.int8, (12, 5))
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"])],
        "products",
        [helper.make_tensor_value_info("x", kinds.UINT8, [3, 12])],
        [helper.make_tensor_value_info("y", kinds.INT32, None)],
        [onnx.numpy_helper.from_array(weight, "w"), helper.make_tensor("z", kinds.UINT8, [], [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    module = wend.onnx.load(model.SerializeToString())
    packs, plain = [], byte_products.packed
    monkeypatch.setattr(byte_products, "packed", lambda *a: packs.append(1) or plain(*a))
    x = drawn(np.uint8, (3, 12))

    def checked(module, weight):
        want = (x.astype(int) - 3) @ weight.astype(int)
        np.testing.assert_array_equal(module(wend.from_numpy(x)).numpy(), want)

    for _ in range(3):
        checked(module, weight)
    assert len(packs) == 1
    copied, of_pickle = copy.deepcopy(module), pickle.loads(pickle.dumps(module.w))
    with wend.no_grad():
        module.w.copy_(wend.from_numpy(-weight // 2))
    checked(module, -weight // 2)
    assert len(packs) == 2
    checked(copied, weight)
    np.testing.assert_array_equal(of_pickle.numpy(), weight)
    exported = wend.export.export(module, (wend.from_numpy(x),))
    checked(exported.module(), -weight // 2)
