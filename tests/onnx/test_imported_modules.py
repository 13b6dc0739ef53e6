"""A model from an ONNX file is a module: names, training, control flow, copies."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import wend
import wend.nn.functional as F

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def made(nodes, inputs, outputs, weights=None, functions=(), opset=18):
    initializers = [numpy_helper.from_array(v, k) for k, v in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    onnx.checker.check_model(model)
    return model.SerializeToString()


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def network():
    """A small network of convolutions, and its weights."""
    rng = np.random.default_rng(0)
    weights = {
        "features.0.weight": rng.normal(size=(4, 1, 3, 3)) * 0.3,
        "features.0.bias": rng.normal(size=4) * 0.1,
        "norm.weight": np.ones(4),
        "norm.bias": np.zeros(4),
        "norm.running_mean": np.zeros(4),
        "norm.running_var": np.ones(4),
        "head.weight": rng.normal(size=(3, 16)) * 0.3,
        "head.bias": np.zeros(3),
    }
    weights = {name: value.astype("float32") for name, value in weights.items()}
    norm = " ".join(name for name in weights if name.startswith("norm"))
    nodes = [
        node("Conv", "x features.0.weight features.0.bias", "a", pads=[1, 1, 1, 1]),
        node("BatchNormalization", f"a {norm}", "b"),
        node("Relu", "b", "c"),
        node("MaxPool", "c", "d", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "d", "e"),
        node("Gemm", "e head.weight head.bias", "y", transB=1),
    ]
    data = made(nodes, [info("x", ["n", 1, 4, 4])], [info("y", ["n", 3])], weights)
    return data, weights


def written(p, x):
    """The same network in Wend."""
    a = F.conv2d(x, p["features.0.weight"], p["features.0.bias"], padding=1)
    b = F.batch_norm(
        a, p["norm.running_mean"], p["norm.running_var"], p["norm.weight"], p["norm.bias"]
    )
    c = F.max_pool2d(F.relu(b), 2)
    return F.linear(c.flatten(1), p["head.weight"], p["head.bias"])


def test_names_are_those_of_the_file():
    data, weights = network()
    model = wend.onnx.load(data)
    assert sorted(model.state_dict()) == sorted(weights)
    assert model.input_names == ["x"] and model.output_names == ["y"]
    assert all(p.requires_grad for p in model.parameters())
    assert [name for name, _ in model.named_buffers()] == ["norm.running_mean", "norm.running_var"]
    assert not any(p.requires_grad for p in wend.onnx.load(data, trainable=False).parameters())


def test_gradients_are_those_of_the_same_network():
    data, weights = network()
    model = wend.onnx.load(data)
    x = wend.randn(5, 1, 4, 4)
    target = wend.tensor([0, 1, 2, 0, 1])
    F.cross_entropy(model(x), target).backward()
    own = {name: wend.tensor(value, requires_grad=True) for name, value in weights.items()}
    expected = written(own, x)
    wend.testing.assert_close(model(x), expected)
    F.cross_entropy(expected, target).backward()
    for name, parameter in model.named_parameters():
        wend.testing.assert_close(parameter.grad, own[name].grad, rtol=1e-4, atol=1e-6)


def test_training():
    data, _ = network()
    model = wend.onnx.load(data)
    wend.manual_seed(0)
    x, target = wend.randn(12, 1, 4, 4), wend.arange(12) % 3
    optimizer = wend.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    again = wend.onnx.load(data)
    again.load_state_dict(model.state_dict())
    wend.testing.assert_close(again(x), model(x))
    wend.testing.assert_close(copy.deepcopy(model)(x), model(x))


def loop_model():
    """x times w, as often as n says, and all values on the way."""
    body = helper.make_graph(
        [
            node("Mul", "v w", "next"),
            node("Identity", "next", "row"),
            node("Identity", "go", "still"),
        ],
        "body",
        [info("i", [], INT64), info("go", [], BOOL), info("v", [2])],
        [info("still", [], BOOL), info("next", [2]), info("row", [2])],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y", "rows"], body=body)]
    inputs = [info("x", [2]), info("n", [], INT64)]
    outputs = [info("y", [2]), info("rows", ["t", 2])]
    return made(nodes, inputs, outputs, {"w": np.array([2, 3], "float32")})


def test_loops_are_loops():
    model = wend.onnx.load(loop_model())
    assert model(wend.ones(2), wend.tensor(0)).rows.shape == (0, 2)
    for n in (3, 1, 5):
        model.zero_grad()
        found = model(wend.ones(2), wend.tensor(n))
        assert found.y.tolist() == [2.0**n, 3.0**n] and found.rows.shape == (n, 2)
        found.y.sum().backward()
        assert model.w.grad.tolist() == [n * 2.0 ** (n - 1), n * 3.0 ** (n - 1)]


def test_branches_see_the_values_around():
    branches = {
        f"{name}_branch": helper.make_graph([node(op, "x w", name)], name, [], [info(name, [2])])
        for name, op in (("then", "Mul"), ("else", "Add"))
    }
    nodes = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s zero", "c"),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    weights = {"w": np.array([2, 3], "float32"), "zero": np.array(0, "float32")}
    model = wend.onnx.load(made(nodes, [info("x", [2])], [info("y", [2])], weights))
    for x, gradient in (([1.0, 1.0], [1.0, 1.0]), ([-1.0, -1.0], [1.0, 1.0])):
        model.zero_grad()
        y = model(x=wend.tensor(x))
        assert y.tolist() == ([2, 3] if x[0] > 0 else [1, 2])
        y.sum().backward()
        assert model.w.grad.tolist() == gradient


def test_functions_take_attributes():
    body = [helper.make_node("LeakyRelu", ["a"], ["b"])]
    body[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    leak = helper.make_function(
        "own", "Leak", ["a"], ["b"], body, [helper.make_opsetid("", 18)], ["slope"]
    )
    nodes = [
        helper.make_node("Leak", ["x"], ["h"], domain="own", slope=0.5),
        helper.make_node("Leak", ["h"], ["y"], domain="own"),
    ]
    model = wend.onnx.load(made(nodes, [info("x", [2])], [info("y", [2])], functions=[leak]))
    np.testing.assert_allclose(model(np.array([-2, 4], "float32")).numpy(), [-0.01, 4])


def test_integer_weights_are_buffers_and_clashes_get_other_names():
    weights = {
        "forward": np.array([1, 2], "float32"),
        "a": np.array([1, 1], "float32"),
        "a.b": np.array([1, 1], "float32"),
        "shape": np.array([2, 1]),
    }
    nodes = [node("Sum", "x forward a a.b", "s"), node("Reshape", "s shape", "y")]
    model = wend.onnx.load(made(nodes, [info("x", [2])], [info("y", [2, 1])], weights))
    assert model(wend.zeros(2)).tolist() == [[3], [4]]
    assert [name for name, _ in model.named_buffers()] == ["shape"]
    assert [name for name, _ in model.named_parameters()] == ["forward_", "a", "a_b"]


def test_strings_are_lists():
    strings = TensorProto.STRING
    weights = {"w": np.array([["!"], ["?"]], dtype=object)}
    nodes = [node("StringConcat", "x w", "y")]
    data = made(nodes, [info("x", [2], strings)], [info("y", [2, 2], strings)], weights, opset=20)
    model = wend.onnx.load(data)
    expected = [["a!", "b!"], ["a?", "b?"]]
    assert model(["a", "b"]) == model(np.array(["a", "b"], dtype=object)) == expected
    with pytest.raises(wend.errors.DTypeError, match="must be strings"):
        model(wend.zeros(2))
    data = made(
        [node("Reshape", "x s", "y")],
        [info("x", [2], strings)],
        [info("y", [2, 1], strings)],
        {"s": np.array([2, 1])},
    )
    with pytest.raises(wend.errors.NotImplementedInWend, match="no handler for strings"):
        wend.onnx.load(data)(["a", "b"])


def test_types_that_wend_lacks_are_carried():
    nodes = [node("Add", "x x", "y")]
    data = made(nodes, [info("x", [2], TensorProto.UINT16)], [info("y", [2], TensorProto.UINT16)])
    found = wend.onnx.load(data)(np.array([1, 65535], "uint16"))
    assert found.dtype is wend.int32 and found.tolist() == [2, 65534]


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ"])
def test_small_floats_round_as_ml_dtypes_does(kind):
    element = getattr(TensorProto, kind)
    dtype = helper.tensor_dtype_to_np_dtype(element)
    every = np.arange(256, dtype="uint8").view(dtype).astype("float32")
    every = np.sort(every[np.isfinite(every)])
    x = np.concatenate([every, (every[1:] + every[:-1]) / 2, every * np.float32(1.001)])
    nodes = [node("Cast", "x", "h", to=element, saturate=1), node("Cast", "h", "y", to=FLOAT)]
    model = wend.onnx.load(made(nodes, [info("x", ["n"])], [info("y", ["n"])], opset=21))
    limit = float(np.max(every))
    expected = np.clip(x, -limit, limit).astype(dtype).astype("float32")
    np.testing.assert_array_equal(model(x).numpy(), expected)


X = np.arange(12, dtype="float32").reshape(3, 4) - 5
#: (opset, op, attributes, further inputs, what is expected of X): forms that newer opsets changed.
OLDER = [
    (7, "Clip", {"min": -1.0, "max": 2.0}, [], X.clip(-1, 2)),
    (11, "Clip", {}, [np.float32(-1)], X.clip(-1)),
    (7, "Slice", {"starts": [1], "ends": [9], "axes": [1]}, [], X[:, 1:]),
    (10, "Slice", {}, [[-1], [-99], [1], [-2]], X[:, ::-2]),
    (
        7,
        "Pad",
        {"pads": [1, 0, 0, 2], "value": 3.0},
        [],
        np.pad(X, ((1, 0), (0, 2)), constant_values=3),
    ),
    (11, "Pad", {"mode": "reflect"}, [[0, 2, 0, 1]], np.pad(X, ((0, 0), (2, 1)), "reflect")),
    (18, "Pad", {"mode": "wrap"}, [[1, 1], None, [1]], np.pad(X, ((0, 0), (1, 1)), "wrap")),
    *[
        (18, "Pad", {"mode": mode}, [pads], np.pad(X, (pads[::2], pads[1::2]), mode))
        for mode in ("reflect", "edge", "wrap")
        for pads in ([0, 3, 0, 0], [2, 0, 1, 3], [7, 9, 0, 11])
    ],
    (
        18,
        "Pad",
        {"mode": "reflect"},
        [[0, -1, 0, 2]],
        np.pad(X[:, 1:], ((0, 0), (0, 2)), "reflect"),
    ),
    (18, "Pad", {"mode": "edge"}, [[-1, 0, 2, 0]], np.pad(X[1:], ((0, 2), (0, 0)), "edge")),
    (7, "Unsqueeze", {"axes": [0, 3]}, [], X[None, :, :, None]),
    (13, "Unsqueeze", {}, [[-1]], X[..., None]),
    (7, "ReduceSum", {"axes": [0], "keepdims": 0}, [], X.sum(0)),
    (13, "ReduceSum", {}, [[1]], X.sum(1, keepdims=True)),
    (11, "ReduceMax", {"axes": [-1]}, [], X.max(1, keepdims=True)),
    (18, "ReduceMax", {"noop_with_empty_axes": 1}, [], X),
    (11, "Softmax", {"axis": 0}, [], np.exp(X) / np.exp(X).sum()),
    (13, "Softmax", {"axis": 0}, [], np.exp(X) / np.exp(X).sum(0)),
    (7, "TopK", {"k": 2, "axis": 0}, [], X[:0:-1]),
    (10, "TopK", {"axis": 1}, [[1]], X[:, 3:]),
    (11, "TopK", {"axis": 1, "largest": 0}, [[1]], X[:, :1]),
    (7, "Upsample", {"scales": [1.0, 2.0]}, [], X.repeat(2, 1)),
    (9, "Upsample", {}, [np.array([2, 1], "float32")], X.repeat(2, 0)),
    (10, "Resize", {}, [np.array([2, 1], "float32")], X.repeat(2, 0)),
    (13, "Resize", {}, [None, None, [6, 4]], X.repeat(2, 0)),
    (7, "Dropout", {"ratio": 0.5}, [], X),
    (12, "Dropout", {}, [np.float32(0.5)], X),
    (7, "Split", {"axis": 1, "split": [1, 3]}, [], X[:, :1]),
    (13, "Split", {"axis": 1}, [[3, 1]], X[:, :3]),
    (18, "Split", {"axis": 1, "num_outputs": 3}, [], X[:, :2]),
    (7, "Gemm", {"transA": 1}, [np.eye(3, dtype="float32"), np.ones(3, "float32")], X.T + 1),
    (11, "Gemm", {"alpha": 2.0}, [np.eye(4, dtype="float32")], 2 * X),
    (7, "Flatten", {"axis": 0}, [], X.reshape(1, 12)),
    (13, "Squeeze", {}, [], X),
    (11, "CumSum", {"reverse": 1}, [np.int64(0)], X[::-1].cumsum(0)[::-1]),
]
OUTPUTS = {"Split": 2, "TopK": 2}


@pytest.mark.parametrize(("opset", "op", "attributes", "others", "expected"), OLDER)
def test_forms_of_all_opsets(opset, op, attributes, others, expected):
    names = ["x", *("" if other is None else f"i{i}" for i, other in enumerate(others))]
    weights = {f"i{i}": np.array(v) for i, v in enumerate(others) if v is not None}
    count = attributes.get("num_outputs", OUTPUTS.get(op, 1))
    made_node = helper.make_node(op, names, [f"y{i}" for i in range(count)], **attributes)
    outputs = [helper.make_empty_tensor_value_info(name) for name in made_node.output]
    graph = helper.make_graph(
        [made_node],
        "g",
        [info("x", [3, 4])],
        outputs,
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    found = wend.onnx.load(model.SerializeToString())(X)
    found = found if count == 1 else found[0]
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-6)


#: Arithmetic of sizes beside the tensors: op, attributes, constants behind the shape of x.
SIZES = [
    ("Add", {}, [[1, 2]]),
    ("Sub", {}, [5]),
    ("Mul", {}, [[-3]]),
    ("Div", {}, [[2, 3]]),
    ("Div", {}, [[-2]]),
    ("Mod", {}, [3]),
    ("Max", {}, [4]),
    ("Max", {}, [[5, 0], [1, 9]]),
    ("Min", {}, [[5, 0]]),
    ("Equal", {}, [[3, 3]]),
    ("Less", {}, [[4, 3]]),
    ("Greater", {}, [4]),
    ("Gather", {}, [[1, 0, -1]]),
    ("Gather", {}, [-1]),
    ("Slice", {}, [[1], [9]]),
    ("Slice", {}, [[-1], [-9], [0], [-1]]),
    ("Slice", {}, [[0], [9], [0], [2]]),
    ("Concat", {"axis": 0}, [[7], [8, 9]]),
    ("Reshape", {}, [[1, 2]]),
    ("Reshape", {}, [[2]]),
    ("Unsqueeze", {}, [[0]]),
    ("ReduceProd", {"keepdims": 0}, []),
    ("Cast", {"to": BOOL}, []),
    ("Cast", {"to": FLOAT}, []),
]


@pytest.mark.parametrize(("op", "attributes", "others"), SIZES)
def test_known_sizes_are_those_of_the_tensor(op, attributes, others):
    names = [f"i{i}" for i in range(len(others))]
    nodes = [node("Shape", "x", "s")]
    nodes += [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))
        for name, value in zip(names, others)
    ]
    nodes.append(helper.make_node(op, ["s", *names], ["y"], **attributes))
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "g", [info("x", None)], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    found = wend.onnx.load(model.SerializeToString())(wend.zeros(3, 4))
    known = getattr(found, "known", None)
    assert known is None or known == found.reshape(-1).tolist()
    unknown = found.ndim > 1 or -2 in np.ravel(others[:1])
    assert (known is None) == (unknown or (op == "Slice" and others[-1] == [-1]))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_by_elements_of_a_dim_of_size_1(mode):
    nodes = [node("Pad", "x pads", "y", mode=mode)]
    weights = {"pads": np.array([0, 2, 0, 3])}
    model = wend.onnx.load(made(nodes, [info("x", [2, 1])], [info("y", [2, 6])], weights))
    x = np.array([[1.0], [2.0]], "float32")
    np.testing.assert_array_equal(model(x).numpy(), np.repeat(x, 6, 1))


def test_numbers_of_initializers_are_read_without_a_flush_and_as_of_now():
    nodes = [
        node("Tanh", "x", "t"),
        node("Shape", "t", "s"),
        node("Unsqueeze", "zero axes", "place"),
        node("Gather", "s place", "rows"),
        node("Concat", "rows rest", "sizes", axis=0),
        node("Reshape", "t sizes", "y"),
    ]
    weights = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([2, -1])}
    model = wend.onnx.load(made(nodes, [info("x", ["n", 4])], [info("y", ["n", 2, 2])], weights))
    y = model(wend.ones(3, 4))
    assert y.shape == (3, 2, 2)
    assert y.value.buffer is None, "something was computed"
    assert wend.session(model, wend.ones(3, 4))(wend.ones(5, 4)).shape == (5, 2, 2)
    model.load_state_dict({**model.state_dict(), "rest": wend.tensor([4, 1])})
    assert model(wend.ones(3, 4)).shape == (3, 4, 1)


@pytest.mark.parametrize("exponent", [2.0, 0.5, -0.5, 3.0, 1.7])
def test_powers_of_known_numbers(exponent):
    nodes = [node("Pow", "x e", "y")]
    shapes = [info("x", ["n"])], [info("y", ["n"])]
    data = made(nodes, *shapes, {"e": np.array(exponent, "float32")})
    x = np.array([0.25, 1.0, 3.0, np.inf], "float32")
    wanted = np.power(x, np.float32(exponent))
    for trainable in (False, True):
        model = wend.onnx.load(data, trainable=trainable)
        np.testing.assert_allclose(model(x).detach().numpy(), wanted, rtol=2e-6)
    model(x[:3]).sum().backward()
    slope = np.sum(wanted[:3] * np.log(x[:3]))
    np.testing.assert_allclose(model.e.grad.numpy(), slope, rtol=1e-5)
    session = wend.session(wend.onnx.load(data, trainable=False), wend.from_numpy(x))
    np.testing.assert_allclose(session(x).numpy(), wanted, rtol=2e-6)


def test_reading_a_shape_computes_nothing():
    nodes = [
        node("Tanh", "x", "t"),
        node("Shape", "t", "s"),
        node("Gather", "s zero", "rows"),
        node("Unsqueeze", "rows zeros", "first"),
        node("Concat", "first rest", "sizes", axis=0),
        node("Reshape", "t sizes", "y"),
    ]
    for name, value in (("zero", 0), ("zeros", [0]), ("rest", [2, -1])):
        constant = numpy_helper.from_array(np.array(value))
        nodes.insert(0, helper.make_node("Constant", [], [name], value=constant))
    model = wend.onnx.load(made(nodes, [info("x", ["n", 4])], [info("y", ["n", 2, 2])]))
    for n in (1, 3):
        y = model(wend.ones(n, 4))
        assert y.shape == (n, 2, 2)
        assert y.value.buffer is None, "something was computed"
        assert wend.allclose(y, wend.ones(n, 2, 2).tanh())
