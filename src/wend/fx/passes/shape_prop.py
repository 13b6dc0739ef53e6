"""torch.fx.passes.shape_prop: notes the shapes and dtypes of all results of a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from wend._engine.base.dtypes import DType
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._frontend.formats import memory_format as MemoryFormat
from wend.fx.graph_module import GraphModule
from wend.fx.interpreter import Interpreter
from wend.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """Facts of a tensor: shape, dtype, requires_grad, stride, memory_format and quantization."""

    shape: Size
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: MemoryFormat | None
    is_quantized: bool
    qparams: dict[str, Any]


def _facts(x: Tensor) -> TensorMetadata:
    from wend._frontend.formats import contiguous_format

    layout = contiguous_format if x.is_contiguous() else None
    stride = tuple(x.stride())
    return TensorMetadata(x.shape, x.dtype, bool(x.requires_grad), stride, layout, False, {})


class ShapeProp(Interpreter):
    """Runs a graph, and puts `meta["tensor_meta"]` and `meta["type"]` on each node.

    fake_mode: accepted for compatibility: recorded ops that nobody reads are never computed
    """

    def __init__(self, gm: GraphModule, fake_mode: object = None) -> None:
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """The node's result, whose facts are noted."""
        result = super().run_node(n)
        metadata: list[TensorMetadata] = []

        def note(x: object) -> object:
            if not isinstance(x, Tensor):
                return x
            metadata.append(_facts(x))
            return metadata[-1]

        facts = map_aggregate(result, note)
        if metadata:
            n.meta["tensor_meta"] = facts
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: object) -> Any:
        """The graph's result; all nodes get their facts."""
        return self.run(*args)
