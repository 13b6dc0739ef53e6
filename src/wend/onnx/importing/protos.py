"""Small questions about ONNX's messages and schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wend._engine.base.errors import FormatError

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, NodeProto, OperatorSetIdProto

MOST_VERSION = 1 << 31


def own_domain(domain: str) -> str:
    """A domain by a single name: ai.onnx is the empty name."""
    return "" if domain == "ai.onnx" else domain


def opsets_of(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """{domain: version}."""
    opsets = {own_domain(entry.domain): entry.version for entry in imports}
    for domain, version in opsets.items():
        if not 0 < version < MOST_VERSION:
            raise FormatError(f"onnx.load: {version} is no version of opset {domain or 'ai.onnx'}")
    return opsets


def check_names(*names: object) -> None:
    """Raises FormatError for a name that is no text: protobuf gives such names as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise FormatError(f"onnx.load: the name {name!r} is no UTF-8")


def with_given(proto: NodeProto, attributes: dict[str, Any]) -> NodeProto:
    """A node of a function with the attributes that the call gave in place of references."""
    if not any(attribute.ref_attr_name for attribute in proto.attribute):
        return proto
    from onnx import NodeProto

    result = NodeProto()
    result.CopyFrom(proto)
    del result.attribute[:]
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            result.attribute.add().CopyFrom(attribute)
        elif attribute.ref_attr_name in attributes:
            new_attribute = result.attribute.add()
            new_attribute.CopyFrom(attributes[attribute.ref_attr_name])
            new_attribute.name = attribute.name
    return result


def defaults_of(schema: Any) -> dict[str, Any]:
    """The attributes that a schema gives a default, as AttributeProtos."""
    return {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }


def schema_of(name: str, domain: str, version: int) -> Any:
    """The schema of an op, or None."""
    from onnx import defs

    known = defs.has(name, version, domain)
    return defs.get_schema(name, version, domain) if known else None


def parsed_function(body: bytes | FunctionProto) -> FunctionProto:
    """A FunctionProto, from a message or from bytes."""
    from onnx import FunctionProto

    return FunctionProto.FromString(body) if isinstance(body, bytes) else body


def outer_names(graph: GraphProto) -> set[str]:
    """The names that a subgraph uses and does not make."""
    own = {info.name for info in graph.input}
    own |= {tensor.name for tensor in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    names: set[str] = set()
    for node in graph.node:
        used = set(filter(None, node.input))
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                used |= outer_names(inner)
        names |= used - own
        own |= set(node.output)
    return names | {info.name for info in graph.output if info.name not in own}
