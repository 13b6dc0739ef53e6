"""Small steps that many handlers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.registry import OpNode
from wend.onnx.importing.sizes import is_explored, known_of, remember, whole
from wend.onnx.importing.types import Carried, plain

Ints: TypeAlias = list[int] | tuple[int, ...] | range


def ints(value: Tensor | Carried | Ints) -> list[Any]:
    """The elements of an integer tensor, or of a tuple of ints, as a list."""
    if isinstance(value, list | tuple | range):
        return list(value)
    known = known_of(value)
    if known is not None:
        return list(known)
    flat = plain(value).reshape(-1)
    if is_explored(flat):  # each element is a number of the graph
        return [flat[i].item() for i in range(flat.shape[0])]
    return [int(n) for n in flat.tolist()]


def floats(value: Tensor | Carried) -> list[float]:
    """The elements of a tensor of factors."""
    known = known_of(value)
    return plain(value).reshape(-1).tolist() if known is None else known


def number(value: Tensor | Carried) -> Any:
    """The element of a tensor with a single element."""
    known = known_of(value)
    if known is not None:
        return known[0]
    return plain(value).item()


def axes_of(value: Tensor | Carried | Ints, rank: int) -> list[int]:
    """Axes from an attribute or a tensor, all from 0 on."""
    return [axis % rank if rank else 0 for axis in ints(value)]


def size_tensor(values: Sequence[int]) -> Tensor:
    """An int64 vector."""
    numbers = [whole(n) for n in values]
    return remember(wend.tensor(numbers, dtype=wend.int64), numbers)


def is_float(x: Tensor) -> bool:
    """Whether the tensor's type is a float."""
    return bool(x.dtype.is_floating_point)


def in_float32(x: Tensor) -> Tensor:
    """The tensor with at least float32's precision."""
    return x.float() if x.dtype in (wend.float16, wend.bfloat16) else x


def legacy_operand(node: OpNode, x: Tensor, y: Tensor) -> Tensor:
    """The second operand of an op before opset 7, aligned with `axis` of the first."""
    axis = node.get("axis")
    if node.version >= 7 or not node.get("broadcast") or axis is None:
        return y
    behind = x.ndim - axis % x.ndim - y.ndim
    return y.reshape(tuple(y.shape) + (1,) * behind)


def same_padding(
    node: OpNode,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """The pads (all begins, then all ends) that a node asks for."""
    mode = node.get("auto_pad", "NOTSET")
    rank = len(kernel)
    if mode == "NOTSET":
        return list(node.get("pads", (0,) * 2 * rank))
    if mode == "VALID":
        return [0] * 2 * rank
    begins, ends = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        half = total // 2
        begins.append(half if mode == "SAME_UPPER" else total - half)
        ends.append(total - begins[-1])
    return begins + ends


def pad_argument(pads: Sequence[int]) -> list[int]:
    """Pads of ONNX (all begins, then all ends) as `nn.functional.pad` takes them."""
    rank = len(pads) // 2
    argument = []
    for axis in reversed(range(rank)):
        argument += [pads[axis], pads[axis + rank]]
    return argument
