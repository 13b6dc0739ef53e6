"""The writer of ONNX graphs: scopes, extents at run time, functions, errors."""

import builtins

import harness
import numpy as np
import pytest

from wend._engine.base import dtypes
from wend._engine.core import _types
from wend._engine.core.symbolic import hint_of, hints
from wend._engine.ops.builder import Builder
from wend.onnx.exporting import GraphWriter, UnsupportedOperatorError, elements
from wend.onnx.exporting.writer import OPSETS

for name in ("onnx", "onnxruntime"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

from onnx_calls import session, valid  # noqa: E402


def emit(g, name, operands, args=(), form=None, **attrs):
    """An op by name, in a writer: the pattern of its call follows from the operands' examples."""
    op = harness.REGISTRY[name]
    prim = op.of(form or ("T",) * len(operands), **attrs)
    types = [_types.intern_type(hints(x.shape), x.dtype, harness.device()) for x in operands]
    program, _ = prim.typed(types, [hint_of(a) for a in args])
    return g.emit(prim, program, operands, args)


def run(model, **feed):
    return session(model).run(None, feed)


def ops_of(graph):
    return [node.op_type for node in graph.node]


@pytest.mark.parametrize("opset", OPSETS)
def test_a_layer_holds_for_every_batch(opset):
    g = GraphWriter(opset)
    x = g.input("x", dtypes.float32, (2, 4), (0,))
    rng = np.random.default_rng(0)
    weight, bias = (rng.normal(size=s).astype(np.float32) for s in ((6, 4), (6,)))
    w, b = g.initializer("weight", weight), g.initializer("bias", bias)
    (y,) = emit(g, "linear", [x, w, b])
    (y,) = emit(g, "tanh", [y])
    (y,) = emit(g, "add", [y, b])
    (y,) = emit(g, "reshape", [y], [y.shape[0], 2, 3], ("T", ("S", 3)))
    model = valid(g.finish([("y", y)]))
    assert "Shape" not in ops_of(model.graph)  # 0 and -1 say the sizes
    for n in (1, 2, 5):
        x_n = rng.normal(size=(n, 4)).astype(np.float32)
        (got,) = run(model, x=x_n)
        want = np.tanh(x_n @ weight.T + bias) + bias
        np.testing.assert_allclose(got, want.reshape(n, 2, 3), rtol=1e-5, atol=1e-6)


def test_equal_extents_are_written_once():
    g = GraphWriter()
    x = g.input("x", dtypes.float32, (3, 4), (0, 1))
    size = [x.shape[0] * x.shape[1] - 2]
    ys = [
        emit(g, "full", [], [*size, k], (("S", 1), ("N", 2)), dtype=dtypes.float32)[0]
        for k in (1.0, 2.0)
    ]
    model = valid(g.finish([("a", ys[0]), ("b", ys[1])]))
    assert ops_of(model.graph).count("Mul") == 1
    a, b = run(model, x=np.zeros((5, 2), np.float32))
    assert a.tolist() == [1.0] * 8 and b.tolist() == [2.0] * 8


def test_branches_see_the_values_outside():
    g = GraphWriter()
    x = g.input("x", dtypes.float32, (3,), (0,))
    c = g.input("c", dtypes.bool_, ())
    (twice,) = emit(g, "add", [x, x])
    branches = {}
    for key, name in (("then_branch", "neg"), ("else_branch", "tanh")):
        body = g.subgraph()
        (y,) = emit(body, name, [twice])
        branches[key] = body.graph([(g.model.name("y"), y)])
    chosen = g.shaped(g.raw_node("If", [c], dtypes.float32, **branches), x.shape)
    model = valid(g.finish([("y", chosen)]))
    value = np.array([1.0, 2.0], np.float32)
    assert run(model, x=value, c=np.array(True))[0].tolist() == [-2.0, -4.0]
    np.testing.assert_allclose(run(model, x=value, c=np.array(False))[0], np.tanh(2 * value), 1e-5)


def test_a_number_of_the_graph_is_a_size():
    g = GraphWriter()
    n = g.input("n", dtypes.int64, ())
    size = g.scalar(n, 3) * 2 + 1
    (y,) = emit(g, "full", [], [size, 1.5], (("S", 1), ("N", 2)), dtype=dtypes.float32)
    model = valid(g.finish([("y", y)]))
    assert run(model, n=np.array(4))[0].tolist() == [1.5] * 9


def test_a_local_function_is_called_twice():
    g = GraphWriter()
    x = g.input("x", dtypes.float32, (2, 3), (0,))
    f = g.function("Doubled", [x])
    (y,) = emit(f, "add", [f.inputs[0], f.inputs[0]])
    (y,) = emit(f, "mul", [y], [3.0], ("T", ("N", 2)))
    f.close([y])
    (once,) = g.call(f, [x])
    (again,) = g.call(f, [once])
    model = valid(g.finish([("y", again)]))
    assert ops_of(model.graph) == ["Doubled", "Doubled"] and len(model.functions) == 1
    value = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(run(model, x=value)[0], value * 36)


def test_outputs_may_be_inputs_or_the_same_value():
    g = GraphWriter()
    x = g.input("x", dtypes.float32, (2,), (0,))
    (y,) = emit(g, "neg", [x])
    model = valid(g.finish([("a", x), ("b", y), ("c", y)]))
    a, b, c = run(model, x=np.array([1.0], np.float32))
    assert (a.tolist(), b.tolist(), c.tolist()) == ([1.0], [-1.0], [-1.0])


def test_nodes_that_no_output_needs_are_left_out():
    g = GraphWriter()
    x = g.input("x", dtypes.float32, (2,), (0,))
    emit(g, "tanh", [x])
    (y,) = emit(g, "neg", [x])
    assert ops_of(valid(g.finish([("y", y)])).graph) == ["Neg"]


def test_an_extent_that_sizes_do_not_change_is_known():
    g = GraphWriter()
    x = g.input("x", dtypes.float32, (6,), (0,))
    n = x.shape[0]
    assert g.fixed(n) is None
    assert g.fixed(7) == 7
    assert g.fixed((n + 5) - n) == 5
    assert g.fixed(n // 2 - (n + 2) // 2) == -1
    assert g.fixed((n + 1) // 2 - n // 2) is None


def test_every_instruction_of_formulas_is_a_node_or_refused():
    g = GraphWriter()
    for name in (name for name in vars(Builder) if not name.startswith("_")):
        if name in elements.MISSING:
            with pytest.raises(UnsupportedOperatorError, match=f"the function {name}"):
                getattr(g.elements, name)
        else:
            assert callable(getattr(g.elements, name))
    with pytest.raises(AttributeError):
        g.elements.no_such_instruction  # noqa: B018


def test_an_opset_out_of_range_is_refused():
    with pytest.raises(ValueError, match="opset 17 is not supported: choose one from 18 to 24"):
        GraphWriter(17)


def test_without_the_package_the_remedy_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "onnx":
            raise ModuleNotFoundError("No module named 'onnx'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'wend-dl\[onnx\]'"):
        GraphWriter()
