"""Damaged and hostile ONNX files: clear errors, before anything large is allocated."""

from __future__ import annotations

import itertools
import os
import random
import sys

import pytest

import wend
from wend._engine.base.errors import (
    ArgumentTypeError,
    DTypeError,
    FormatError,
    NotImplementedInWend,
    ShapeError,
    WendError,
)

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper  # noqa: E402

load = wend.onnx.load


def info(name, shape=(2,), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name="w", dims=(2,), data=b"\0" * 8, kind=TensorProto.FLOAT):
    return TensorProto(name=name, dims=dims, data_type=kind, raw_data=data)


def model(nodes, initializers=(), functions=(), inputs=("x",), outputs=("y",), opset=17):
    graph = helper.make_graph(
        nodes, "g", [info(n) for n in inputs], [info(n) for n in outputs], list(initializers)
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    made = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    return made


def add(initializer):
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [initializer])


def refused(made, match, error=FormatError):
    data = made if isinstance(made, bytes) else made.SerializeToString()
    with pytest.raises(error, match=match):
        load(data)


# --- bytes ------------------------------------------------------------------------


def test_bytes_that_are_no_model():
    whole = add(tensor()).SerializeToString()
    for cut in range(1, len(whole), 7):
        with pytest.raises((FormatError, NotImplementedInWend)):
            load(whole[:cut])
    refused(b"", "no graph")
    refused(b"PK\x03\x04 this is no model", "no ONNX model|no graph")
    with pytest.raises(ArgumentTypeError, match="path or bytes"):
        load(3)
    with pytest.raises(FileNotFoundError):
        load("nowhere.onnx")


def test_bytes_changed_at_random():
    data = add(tensor()).SerializeToString()
    draw = random.Random(0)
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(draw.choice((1, 2, 5))):
            changed[draw.randrange(len(data))] = draw.randrange(256)
        try:
            load(bytes(changed))
        except WendError:
            pass


# --- tensors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "match"),
    [
        ([2**63 - 1], "is no size"),
        ([-1], "is no size"),
        ([2, -2], "is no size"),
        ([2**40, 2**40], "needs"),
        ([3], "needs 12 bytes, and the file holds 8"),
        ([1], "needs 4 bytes, and the file holds 8"),
        ([], "needs 4 bytes"),
    ],
)
def test_dims_that_the_data_does_not_fit(dims, match):
    refused(add(tensor(dims=dims)), match)
    constant = helper.make_node("Constant", [], ["y"], value=tensor(dims=dims))
    refused(model([constant]), match)


def test_numbers_in_place_of_bytes():
    short = TensorProto(name="w", dims=[2**40], data_type=TensorProto.FLOAT, float_data=[1, 2])
    refused(add(short), "needs 1099511627776 numbers, and the file holds 2")
    half = TensorProto(name="w", dims=[4], data_type=TensorProto.INT4, int32_data=[1])
    refused(add(half), "needs 2 numbers")


def test_types_that_are_none():
    refused(add(tensor(kind=77)), "element type 77")
    strings = TensorProto(name="w", dims=[2], data_type=TensorProto.STRING, string_data=[b"a"])
    refused(add(strings), "needs 2 strings, and the file holds 1")


def test_sparse_tensors():
    def sparse(dims, indices):
        values = helper.make_tensor("w", TensorProto.FLOAT, [len(indices)], [1.0] * len(indices))
        places = helper.make_tensor("i", TensorProto.INT64, [len(indices)], indices)
        made = model([helper.make_node("Add", ["x", "w"], ["y"])])
        made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, dims))
        return made

    refused(sparse([2**40, 2**15], [0]), "dense elements")
    refused(sparse([2], [2]), "index outside")
    refused(sparse([2], [-1]), "index outside")
    found = load(sparse([2], [1]).SerializeToString())(wend.zeros(2))
    assert found.tolist() == [0, 1]


# --- external data ----------------------------------------------------------------


def external(folder, location, **entries):
    """The path of a model whose weights lie elsewhere."""
    weights = TensorProto(name="w", dims=[2], data_type=TensorProto.FLOAT)
    weights.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        weights.external_data.add(key=key, value=str(value))
    path = folder / "model.onnx"
    path.write_bytes(add(weights).SerializeToString())
    return path


def test_external_data_in_the_folder(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"\0" * 4 + b"\0\0\x80\x3f\0\0\0\x40")
    found = load(external(tmp_path, "w.bin", offset=4, length=8))
    assert found(wend.zeros(2)).tolist() == [1, 2]
    assert found.w.requires_grad
    data = external(tmp_path, "w.bin").read_bytes()
    refused(data, "by path, not bytes")


@pytest.mark.parametrize("name", ["../w.bin", "a/../../w.bin", "..\\w.bin", "", "ABSOLUTE"])
def test_external_data_outside(tmp_path, name):
    inner = tmp_path / "inner"
    (inner / "a").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(b"\0" * 8)
    location = str(tmp_path / "w.bin") if name == "ABSOLUTE" else name
    with pytest.raises(FormatError, match="folder of the model"):
        load(external(inner, location))


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_external_data_behind_links(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 8)
    os.symlink(tmp_path / "w.bin", inner / "file")
    os.symlink(tmp_path, inner / "folder")
    for location in ("file", "folder/w.bin"):
        with pytest.raises(FormatError, match="link out of the folder"):
            load(external(inner, location))


def test_external_data_that_is_not_there(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        load(external(tmp_path, "w.bin"))
    (tmp_path / "w.bin").write_bytes(b"\0" * 8)
    for entries in ({"offset": 4}, {"offset": -1}, {"length": 4}, {"length": 2**62}):
        with pytest.raises(FormatError, match="needs 8 bytes"):
            load(external(tmp_path, "w.bin", **entries))
    with pytest.raises(FormatError, match="no number"):
        load(external(tmp_path, "w.bin", offset="x"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(FormatError, match="no such file"):
        load(external(tmp_path, "folder"))


# --- graphs -----------------------------------------------------------------------


def test_nodes_out_of_order():
    first = helper.make_node("Relu", ["a"], ["y"])
    second = helper.make_node("Neg", ["x"], ["a"])
    refused(model([first, second]), "not sorted, or form a cycle")
    back = helper.make_node("Neg", ["y"], ["a"])
    refused(model([back, first]), "not sorted, or form a cycle")
    own = helper.make_node("Add", ["x", "y"], ["y"])
    refused(model([own]), "not sorted, or form a cycle")


def test_names_that_nothing_or_two_nodes_make():
    refused(model([helper.make_node("Relu", ["nowhere"], ["y"])]), "'nowhere', which nothing makes")
    refused(model([helper.make_node("Relu", ["x"], ["z"])]), "nothing makes the output 'y'")
    twice = [helper.make_node("Relu", ["x"], ["y"])] * 2
    refused(model(twice), "makes 'y', which is there already")
    refused(model([], inputs=("x", "x"), outputs=("x",)), "share a name")
    both = model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor(), tensor()])
    refused(both, "two initializers have the name 'w'")


def function(name, *called):
    nodes = [helper.make_node(op, ["x"], [f"y{i}"], domain="own") for i, op in enumerate(called)]
    nodes.append(helper.make_node("Sum", [f"y{i}" for i in range(len(called))], ["y"]))
    return helper.make_function("own", name, ["x"], ["y"], nodes, [helper.make_opsetid("", 17)])


def test_functions_that_call_themselves():
    call = helper.make_node("A", ["x"], ["y"], domain="own")
    refused(model([call], functions=[function("A", "A")]), "calls itself: own.A -> own.A")
    both = [function("A", "B"), function("B", "A")]
    refused(model([call], functions=both), "calls itself: own.A -> own.B -> own.A")


def test_functions_that_double_at_each_level():
    names = [f"F{i}" for i in range(40)]
    functions = [function(a, b, b) for a, b in itertools.pairwise(names)]
    end = helper.make_node("Relu", ["x"], ["y"])
    last = helper.make_function("own", "F39", ["x"], ["y"], [end], [helper.make_opsetid("", 17)])
    call = helper.make_node("F0", ["x"], ["y"], domain="own")
    load(model([call], functions=[*functions, last]).SerializeToString())
    chain = [f"G{i}" for i in range(100)]
    deep = [function(a, b) for a, b in itertools.pairwise(chain)]
    call = helper.make_node("G0", ["x"], ["y"], domain="own")
    refused(model([call], functions=deep), "lie inside each other")


def part(field, data):
    """A part of a protobuf message: its number, its length, its bytes."""
    length, size = b"", len(data)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([field << 3 | 2]) + length + bytes([size]) + data


@pytest.mark.parametrize("depth", [40, 1000, 20_000])
def test_graphs_in_graphs(depth):
    graph = b""
    for _ in range(depth):
        attribute = part(1, b"body") + part(6, graph) + b"\xa0\x01\x05"
        graph = part(1, part(4, b"Loop") + part(5, attribute))
    refused(part(7, graph), "no ONNX model")


def test_unknown_ops_are_all_named():
    nodes = [
        helper.make_node("Fancy", ["x"], ["a"], domain="own", name="first"),
        helper.make_node("Fancy", ["a"], ["b"], domain="own"),
        helper.make_node("Nothing", ["b"], ["y"]),
    ]
    match = r"own\.Fancy of opset 1: 2 of them; ai\.onnx\.Nothing of opset 17: 1 of them; .*'first'"
    refused(model(nodes), match.replace("'first'", "first"), NotImplementedInWend)


# --- inputs -----------------------------------------------------------------------


def test_inputs_that_do_not_fit():
    found = load(add(tensor()).SerializeToString())
    with pytest.raises(ArgumentTypeError, match=r"missing inputs \['x'\]"):
        found()
    with pytest.raises(ArgumentTypeError, match="has 1 inputs, and 2 were given"):
        found(wend.zeros(2), wend.zeros(2))
    with pytest.raises(ArgumentTypeError, match="no input 'z'"):
        found(z=wend.zeros(2))
    with pytest.raises(ArgumentTypeError, match="given twice"):
        found(wend.zeros(2), x=wend.zeros(2))
    with pytest.raises(DTypeError, match="'x' must have dtype float32, and int64 was given"):
        found(wend.arange(2))
    with pytest.raises(ShapeError, match=r"'x' must have 1 dims, not those of shape \(1, 2\)"):
        found(wend.zeros(1, 2))


def test_errors_name_the_node():
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    found = load(model([node], [tensor(dims=(1, 2))]).SerializeToString())
    with pytest.raises(RuntimeError) as caught:
        found(wend.zeros(2))
    assert "'product', MatMul of opset 17" in "".join(caught.value.__notes__)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'wend-dl\[onnx\]'"):
        load(b"")
