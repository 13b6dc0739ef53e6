"""Nodes that run by a graph: functions of the file, and ops that ONNX defines by more basic ops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from wend._engine.base.errors import NotImplementedInWend
from wend.onnx.importing.protos import parsed_function
from wend.onnx.importing.registry import OpNode
from wend.onnx.importing.types import element_of, is_tensor

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto


class Runnable(Protocol):
    """The graph of a function, as bodies run the graph."""

    inputs: list[str]

    def run(self, arguments: Iterable[Any], outer: Any, store: dict[str, Any]) -> list[Any]:
        """The outputs."""


class FunctionReader(Protocol):
    """The importer, as bodies ask the importer for graphs."""

    def function(
        self, proto: FunctionProto, attributes: dict[str, Any], opsets: dict[str, int]
    ) -> Runnable:
        """The body of a function, for the attributes of a call."""

    def check_known(self) -> None:
        """Raises NotImplementedInWend that names all ops without a handler."""


class Body:
    """Runs a node by the graph of a function."""

    aware = True

    def __init__(self, graph: Runnable) -> None:
        self.graph = graph

    def __call__(self, node: OpNode, *inputs: Any) -> tuple[Any, ...]:
        absent = (None,) * (len(self.graph.inputs) - len(inputs))
        return tuple(self.graph.run((*inputs, *absent), None, {}))


class TypedBody:
    """Runs a node by the body that the schema gives for the types of the inputs."""

    aware = True

    def __init__(self, importer: FunctionReader, schema: Any, proto: NodeProto, *rest: Any) -> None:
        self.importer, self.schema, self.proto = importer, schema, proto
        self.version, self.given, self.opsets = rest
        self.bodies: dict[Any, Body] = {}

    def __call__(self, node: OpNode, *inputs: Any) -> tuple[Any, ...]:
        return typed_body(self, node, inputs)(node, *inputs)


def typed_body(body: TypedBody, node: OpNode, inputs: tuple[Any, ...]) -> Body:
    """The body for the element types and ranks of the inputs, made once for each."""
    key = tuple((element_of(x), len(x.shape)) if is_tensor(x) else None for x in inputs)
    if key not in body.bodies:
        versions = list(body.schema.context_dependent_function_opset_versions)
        fitting = [v for v in versions if v <= body.version]
        version = fitting[-1] if fitting else body.schema.since_version
        function_bytes = body.schema.get_context_dependent_function_with_opset_version(
            version, body.proto.SerializeToString(), [type_bytes(x) for x in inputs]
        )
        if not function_bytes:
            raise NotImplementedInWend(f"onnx: {node} has no body for these inputs")
        function = body.importer.function(parsed_function(function_bytes), body.given, body.opsets)
        body.bodies[key] = Body(function)
        body.importer.check_known()
    return body.bodies[key]


def type_bytes(value: Any) -> bytes:
    """The TypeProto of a value, as bytes; of a sequence that of the first element."""
    from onnx import TypeProto

    type_proto = TypeProto()
    tensor = value
    if isinstance(value, list):
        target = type_proto.sequence_type.elem_type.tensor_type
        tensor = value[0] if value else None
    else:
        target = type_proto.tensor_type
    if is_tensor(tensor):
        target.elem_type = element_of(tensor)
        for dim in tensor.shape:
            target.shape.dim.add().dim_value = dim
    elif value is None:
        return b""
    return bytes(type_proto.SerializeToString())
