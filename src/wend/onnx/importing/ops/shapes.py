"""Ops that ask for shapes, and make tensors from shapes."""

from __future__ import annotations

import math

import wend
from wend._engine.base.errors import FormatError, ShapeError
from wend._engine.core._hot import Tensor
from wend.onnx.importing.carried import aware
from wend.onnx.importing.ops.support import axes_of, ints, number, size_tensor
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.sizes import MOST_KNOWN, is_int, remember
from wend.onnx.importing.types import Carried, Text, dtype_of, element_of, plain, with_element


@aware
@op("Shape")
def shape(node: OpNode, x: Tensor | Carried | Text) -> Tensor:
    """The sizes of the dims, from `start` to `end`."""
    return size_tensor(tuple(x.shape)[node.get("start", 0) : node.get("end")])


@aware
@op("Size")
def size(node: OpNode, x: Tensor | Carried | Text) -> Tensor:
    """The number of elements."""
    count = math.prod(x.shape)
    return remember(wend.tensor(count, dtype=wend.int64), [count])


@op("Constant")
def constant(node: OpNode) -> Tensor | Carried | Text:
    """The value of whichever attribute is there."""
    for name in ("value", "sparse_value"):
        if node.get(name) is not None:
            return node.get(name)
    for name, dtype in (("float", wend.float32), ("int", wend.int64)):
        for suffix in ("", "s"):
            value = node.get(f"value_{name}{suffix}")
            if value is not None:
                return wend.tensor(value, dtype=dtype)
    strings = node.get("value_strings")
    if strings is not None:
        return Text(list(strings), (len(strings),))
    if node.get("value_string") is None:
        raise FormatError(f"onnx.load: {node} has no value")
    return Text([node.get("value_string")], ())


@op("ConstantOfShape")
def constant_of_shape(node: OpNode, sizes: Tensor) -> Tensor | Carried:
    """A tensor of equal elements."""
    value = node.get("value")
    if value is None:
        value = wend.zeros(1)
    shape = ints(sizes)
    result = plain(value).reshape(()).expand(shape)
    if len(shape) == 1 and shape[0] <= MOST_KNOWN and result.dtype is wend.int64:
        remember(result, [number(value)] * shape[0])
    return with_element(result, element_of(value))


@op("EyeLike")
def eye_like(node: OpNode, x: Tensor) -> Tensor:
    """1 on a diagonal of a matrix, else 0."""
    rows, columns = x.shape
    dtype = dtype_of(node.get("dtype")) if node.get("dtype") else x.dtype
    place = wend.arange(columns) - wend.arange(rows).reshape(-1, 1)
    return (place == node.get("k", 0)).to(dtype)


@op("Range")
def numbers(node: OpNode, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Numbers from a start by a step to below a limit."""
    first, last, step = number(start), number(limit), number(delta)
    count = max(math.ceil((last - first) / step), 0)
    return (wend.arange(count) * step + first).to(start.dtype)


@op("Reshape")
def reshape(node: OpNode, x: Tensor, sizes: Tensor | None = None) -> Tensor:
    """Other dims over the same elements: 0 keeps a dim, -1 is the rest."""
    wanted = ints(node.get("shape") if sizes is None else sizes)
    if not node.get("allowzero"):
        wanted = [x.shape[i] if is_int(n, 0) else n for i, n in enumerate(wanted)]
    rest = [i for i, n in enumerate(wanted) if is_int(n, -1)]
    if rest and any(is_int(n, 0) for n in wanted):
        wanted[rest[0]] = 0 if math.prod(x.shape) == 0 else 1
    return x.reshape(wanted)


@op("Flatten")
def flatten(node: OpNode, x: Tensor) -> Tensor:
    """Two dims: those before the axis, and those from there on."""
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@op("Squeeze")
def squeeze(node: OpNode, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """Without the dims of size 1, or without some of those."""
    axes = node.get("axes") if axes is None else axes
    gone = [i for i, n in enumerate(x.shape) if n == 1] if axes is None else axes_of(axes, x.ndim)
    for axis in gone:
        if x.shape[axis] != 1:
            raise ShapeError(f"onnx: Squeeze of dim {axis} of size {x.shape[axis]}")
    return x.squeeze(tuple(gone)) if gone else x


@op("Unsqueeze")
def unsqueeze(node: OpNode, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """With dims of size 1 at the axes of the result."""
    wanted = ints(node.get("axes") if axes is None else axes)
    rank = x.ndim + len(wanted)
    for axis in sorted(axis % rank for axis in wanted):
        x = x.unsqueeze(axis)
    return x


@op("Expand")
def expand(node: OpNode, x: Tensor, sizes: Tensor) -> Tensor:
    """Repeated along dims of size 1; both shapes broadcast."""
    wanted = ints(sizes)
    rank = max(x.ndim, len(wanted))
    have = [1] * (rank - x.ndim) + list(x.shape)
    wanted = [1] * (rank - len(wanted)) + wanted
    return x.expand([n if is_int(w, 1) else w for n, w in zip(have, wanted)])


@op("Optional")
def optional(node: OpNode, x: Tensor | None = None) -> Tensor | None:
    """The value, or none."""
    return x


@op("OptionalHasElement")
def optional_has_element(node: OpNode, x: Tensor | None = None) -> Tensor:
    """Whether there is a value."""
    return wend.tensor(x is not None)


@op("OptionalGetElement")
def optional_get_element(node: OpNode, x: Tensor) -> Tensor:
    """The value of an optional. Raises FormatError if there is none."""
    if x is None:
        raise FormatError(f"onnx: {node} asks for the value of an empty optional")
    return x
