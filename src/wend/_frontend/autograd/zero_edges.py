"""First gradients that require grad although no input changes them: as in PyTorch.

PyTorch computes the gradient of relu from the incoming gradient and the result: with
`create_graph=True` this gradient requires grad, and its own gradient by the input is zero.  Wend's
rules choose by comparisons, through which no gradient flows.  Here such a gradient gets an edge to
the tensor that was differentiated by, along which zeros flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.autograd.nodes import AccumulateGrad, accumulate_node, edge_of

__all__ = ["with_zero_edges"]

#: PyTorch's nodes whose backward function reads operands or results, and yet is linear in the
#: gradient alone; per node the number of edges whose tensors are read (None: all edges).
_READERS: dict[str, int | None] = {
    "ConvolutionBackward0": 2,  # the bias is not read
    **dict.fromkeys(
        (
            *("ReluBackward0", "ThresholdBackward0", "LeakyReluBackward0", "LeakyReluBackward1"),
            *("HardtanhBackward0", "HardtanhBackward1", "HardshrinkBackward0"),
            *("SoftshrinkBackward0", "HardsigmoidBackward0", "RreluWithNoiseBackward0"),
            *("LogSoftmaxBackward0", "SoftmaxBackward0", "EluBackward0", "PreluKernelBackward0"),
            *("NativeLayerNormBackward0", "NativeBatchNormBackward0"),
            *("MaxPool2DWithIndicesBackward0", "MaxPool3DWithIndicesBackward0"),
            *("FractionalMaxPool2DBackward0", "FractionalMaxPool3DBackward0"),
            *("NllLossBackward0", "NllLoss2DBackward0", "GridSampler2DBackward0"),
            *(
                "GridSampler3DBackward0",
                "MultiMarginLossBackward0",
                "MultilabelMarginLossBackward0",
            ),
            *(f"AdaptiveMaxPool{n}DBackward0" for n in (2, 3)),
            *(f"AdaptiveAvgPool{n}DBackward0" for n in (2, 3)),
            *(f"AvgPool{n}DBackward0" for n in (2, 3)),
            *(f"ReflectionPad{n}DBackward0" for n in (1, 2, 3)),
            *(f"ReplicationPad{n}DBackward0" for n in (1, 2, 3)),
        )
    ),
}


def with_zero_edges(roots: list[Tensor], wanted: list[Tensor], grads: list[Any]) -> list[Any]:
    """The gradients `grads` of the roots by `wanted`, each requiring grad where PyTorch's does.

    Meant for `create_graph=True`.  Gradients that require grad already, and None, stay as given.
    """
    open_ = [k for k, g in enumerate(grads) if g is not None and not g.requires_grad]
    if not open_:
        return grads
    held, read = _edges_behind_readers(roots)
    result = list(grads)
    for k in open_:
        x = wanted[k]
        node, number = _edge_to(x)
        if (id(node), number) in read:
            result[k] = ops.overwrite(grads[k], x)
    del held  # ids name these nodes: none of them may end before
    return result


def _edge_to(x: Tensor) -> tuple[Any, int]:
    """(node, number of the result) that a tensor's gradient arrives at."""
    value = _hot.value_of(x)
    return edge_of(value) if value.leaf is None else accumulate_node(value.leaf, value)


def _edges_behind_readers(roots: list[Tensor]) -> tuple[list[Any], set[tuple[int, int]]]:
    """(all nodes met, the edges that a reader's gradient flows through).

    An edge is the id of a node and the number of a result.
    """
    held: list[Any] = []
    read: set[tuple[int, int]] = set()
    seen: set[tuple[int, bool]] = set()
    stack = [(_edge_to(x)[0], False) for x in roots if x.requires_grad]
    while stack:
        node, behind = stack.pop()
        if node is None or (id(node), behind) in seen or isinstance(node, AccumulateGrad):
            continue
        seen.add((id(node), behind))
        held.append(node)
        edges = node.next_functions
        behind = behind or _reads(type(node).__name__, edges)
        for target, number in edges:
            if target is not None:
                held.append(target)
                stack.append((target, behind))
                if behind:
                    read.add((id(target), number))
    return held, read


def _reads(name: str, edges: Sequence[Any]) -> bool:
    """Whether the gradients of a node with these edges require grad in PyTorch."""
    if name not in _READERS:
        return False
    return any(target is not None for target, _ in edges[: _READERS[name]])
