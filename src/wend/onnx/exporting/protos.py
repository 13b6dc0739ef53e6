"""The messages of an ONNX model, made by the `onnx` package when first needed."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base.dtypes import DType
from wend._engine.core.symbolic import DIM, Expr, expr_of
from wend.onnx.exporting.values import Value
from wend.version import __version__

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

__all__ = ["Protos", "renamed", "used_nodes"]

#: The version of the file format, by opset, as the releases with that opset wrote.
_IR_VERSIONS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 11}


class Protos:
    """Makes messages. Raises ImportError, which names the remedy, without the `onnx` package."""

    def __init__(self) -> None:
        try:
            import onnx
            from onnx import helper
        except ImportError as error:
            raise ImportError(
                "onnx export: needs the onnx package: pip install 'wend-dl[onnx]'"
            ) from error
        self.onnx: Any = onnx
        self.helper: Any = helper

    def code(self, dtype: DType) -> int:
        """ONNX's number of an element type."""
        name = {"bool": "BOOL", "float32": "FLOAT", "float64": "DOUBLE"}.get(dtype.name)
        return int(getattr(self.onnx.TensorProto, name or dtype.name.upper()))

    def node(
        self,
        op: str,
        inputs: list[str],
        outputs: list[str],
        domain: str,
        attributes: dict[str, Any],
    ) -> NodeProto:
        """A NodeProto."""
        present_attributes = {key: value for key, value in attributes.items() if value is not None}
        return self.helper.make_node(op, inputs, outputs, domain=domain, **present_attributes)

    def tensor(self, name: str, array: np.ndarray[Any, Any], dtype: DType) -> TensorProto:
        """A TensorProto."""
        dense = np.ascontiguousarray(array).reshape(array.shape)
        return self.helper.make_tensor(
            name, self.code(dtype), list(array.shape), dense.tobytes(), raw=True
        )

    def info(self, name: str, value: Value) -> ValueInfoProto:
        """Name, type and shape of an input or output; an extent that is a dim has a name."""
        shape: list[int | str | None] | None = None
        if value.shape is not None:
            shape = [self._dim(expr_of(n)) for n in value.shape]
        return self.helper.make_tensor_value_info(name, self.code(value.dtype), shape)

    @staticmethod
    def _dim(expr: Expr) -> int | str | None:
        if type(expr) is not tuple:
            return expr
        return f"d{expr[1]}_{expr[2]}" if expr[0] == DIM else None

    def graph(
        self,
        name: str,
        nodes: list[NodeProto],
        inputs: list[ValueInfoProto],
        outputs: list[ValueInfoProto],
        tensors: list[TensorProto],
    ) -> GraphProto:
        """A GraphProto, without tensors that no node reads."""
        read = {*names_read(nodes), *(info.name for info in outputs)}
        kept = [tensor for tensor in tensors if tensor.name in read]
        return self.helper.make_graph(nodes, name, inputs, outputs, initializer=kept)

    def function(
        self,
        domain: str,
        name: str,
        inputs: list[str],
        outputs: list[str],
        nodes: list[NodeProto],
        opset: int,
    ) -> FunctionProto:
        """A FunctionProto."""
        imports = [self.helper.make_opsetid("", opset), self.helper.make_opsetid(domain, 1)]
        return self.helper.make_function(domain, name, inputs, outputs, nodes, imports)

    def model(
        self, graph: GraphProto, opset: int, domain: str, functions: list[FunctionProto]
    ) -> ModelProto:
        """A ModelProto."""
        imports = [self.helper.make_opsetid("", opset)]
        if functions:
            imports.append(self.helper.make_opsetid(domain, 1))
        return self.helper.make_model(
            graph,
            opset_imports=imports,
            functions=functions,
            producer_name="wend",
            producer_version=__version__,
            ir_version=_IR_VERSIONS[opset],
        )


def names_read(nodes: Iterable[NodeProto]) -> dict[str, None]:
    """The names that nodes read, in order, those in graphs inside nodes included."""
    names: dict[str, None] = {}
    for node in nodes:
        names.update(dict.fromkeys(node.input))
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= names_read(attribute.g.node)
                names.update(dict.fromkeys(info.name for info in attribute.g.output))
    return names


def used_nodes(nodes: list[NodeProto], outputs: list[str]) -> list[NodeProto]:
    """The nodes that the outputs depend on, in order."""
    needed = set(outputs)
    kept = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed.update(names_read([node]))
    kept.reverse()
    return kept


def renamed(nodes: list[NodeProto], new: dict[str, str]) -> list[NodeProto]:
    """The nodes, with names exchanged, in graphs inside nodes too."""
    if new:
        for node in nodes:
            _rename(node.input, new)
            _rename(node.output, new)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    renamed(list(attribute.g.node), new)
                    for info in attribute.g.output:
                        info.name = new.get(info.name, info.name)
    return nodes


def _rename(names: MutableSequence[str], new: dict[str, str]) -> None:
    for i, name in enumerate(names):
        if name in new:
            names[i] = new[name]
