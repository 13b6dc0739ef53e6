"""Matrix products of every form, as `contract` and at most an elementwise step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.base.shapes import normalize_dims
from wend._engine.core.kinds import Attr, Tensor
from wend._engine.core.primitive import Primitive, Sample, composite, ops
from wend._engine.core.symbolic import broadcast_shapes, hints
from wend._engine.ops.composites.products.product_nodes import (
    linear_nodes,
    matmul_nodes,
    tensordot_nodes,
)
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.numeric import NUMERIC, accumulator, require
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.sugar import with_out


def times(x: Tensor, step: int = 1) -> str:
    """The shape of a matrix as in PyTorch's messages: 3x4.  step: -1 for its transpose"""
    return "x".join(str(n) for n in hints(x.shape)[::step])


def _flat(x: Tensor) -> str:
    """The shape of a matrix of all rows, as in PyTorch's messages."""
    *rows, width = hints(x.shape)
    return f"{math.prod(rows)}x{width}"


def same_dtype(op: str, *tensors: Tensor) -> None:
    """Raise DTypeError unless all tensors have the same dtype, which can be multiplied."""
    first = tensors[0].dtype
    require(op, NUMERIC, first)
    for other in tensors[1:]:
        if other.dtype is not first:
            raise DTypeError(
                f"{op}: expected all operands to have the same dtype, but got {first} and "
                f"{other.dtype}; convert one with .to(...)"
            )


def takes(op: str, *described: tuple[str, Any, int]) -> None:
    """Raise ShapeError unless each (name, tensor, rank) has that rank."""
    for name, x, rank in described:
        if len(x.shape) != rank:
            raise ShapeError(
                f"{op}: {name} must be a {rank}-D tensor, but it has {len(x.shape)} dims "
                f"(shape {hints(x.shape)})"
            )


def multiplies(op: str, a: Tensor, b: Tensor, names: str = "mat1 and mat2") -> None:
    """Raise ShapeError unless a's last extent is b's second last (last, if b is 1-D)."""
    if a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else -1]:
        raise ShapeError(f"{op}: {names} shapes cannot be multiplied ({times(a)} and {times(b)})")


def batches_multiply(op: str, a: Tensor, b: Tensor) -> None:
    """Raise ShapeError or DTypeError unless a is (b, n, m) and b is (b, m, p)."""
    takes(op, ("batch1", a, 3), ("batch2", b, 3))
    same_dtype(op, a, b)
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise ShapeError(
            f"{op}: batch1 and batch2 shapes cannot be multiplied ({times(a)} and {times(b)}): "
            f"expected batch2 to be ({a.shape[0]}, {a.shape[2]}, *)"
        )


def sample_pairs(
    rng: np.random.Generator, *shapes: tuple[tuple[int, ...], ...]
) -> Iterator[Sample]:
    """A sample of normal operands per row of shapes."""
    for row in shapes:
        yield Sample(*(rng.normal(size=shape) for shape in row))


# --- matmul and its special cases ------------------------------------------------------------


def _matmul_samples(rng: np.random.Generator) -> Iterator[Sample]:
    # fmt: off
    yield from sample_pairs(
        rng,
        ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)),
        ((2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((5, 0, 3), (3, 4)), ((2, 0), (0, 3)),
    )
    # fmt: on


def _onnx_matmul(self: Primitive, g: OnnxBuilder, x: OnnxValue, y: OnnxValue) -> Any:
    if min(x.rank, y.rank) < 2:
        return NotImplemented
    wide = accumulator(x.dtype)
    return g.cast(g.node("MatMul", g.cast(x, wide), g.cast(y, wide)), x.dtype)


@composite(
    onnx=_onnx_matmul,
    functions=("matmul",),
    supports=NUMERIC,
    methods=("matmul",),
    operators=("__matmul__",),
    pairs_batches=True,
    reflected=True,
    samples=_matmul_samples,
    grad_nodes=matmul_nodes,
)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """y = x @ w over the last two dims; the dims before broadcast; a 1-D operand is a vector.

    x: (..., n, m)   w: (..., m, p)   ->   (..., n, p)
    Raises ShapeError if the inner extents differ or the dims before do not broadcast, DTypeError
    for operands of two types.
    """
    return product("matmul", input, other)


def product(op: str, x: Tensor, w: Tensor) -> Tensor:
    """x @ w; `op` is the public name for errors."""
    rank_x, rank_w = len(x.shape), len(w.shape)
    if rank_x == 0 or rank_w == 0:
        raise ShapeError(
            f"{op}: both arguments need to be at least 1-D, but they are {rank_x}-D and {rank_w}-D"
        )
    same_dtype(op, x, w)
    multiplies(op, x, w)
    if rank_w <= 2:
        return ops.contract(x, w, (rank_x - 1,), (max(rank_w - 2, 0),))
    if rank_x == 1:
        y = ops.contract(w, x, (rank_w - 2,), (0,))
        return y
    front = broadcast_shapes(op, x.shape[:-2], w.shape[:-2])
    if rank_x == 2:
        # (n, m) @ (..., m, p) = (n, ..., p), one product instead of many.
        y = ops.contract(w, x, (rank_w - 2,), (1,))
        return ops.transpose(y, -1, -2)
    x = _expanded(x, front)
    w = _expanded(w, front)
    rank = len(front)
    batch = tuple(range(rank))
    return ops.contract(x, w, (rank + 1,), (rank,), batch, batch)


def _expanded(x: Tensor, front: tuple[Any, ...]) -> Tensor:
    """x with the dims before the last two broadcast to `front`."""
    own = x.shape[:-2]
    if len(own) == len(front) and all(a == b for a, b in zip(own, front, strict=True)):
        return x
    return ops.expand(x, (*front, *x.shape[-2:]))


@composite(
    functions=("mm",),
    supports=NUMERIC,
    methods=("mm",),
    samples=lambda rng: sample_pairs(rng, ((2, 3), (3, 4)), ((0, 3), (3, 4)), ((2, 0), (0, 4))),
)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """y = x @ w for matrices. x: (n, m)   mat2: (m, p)   ->   (n, p).

    Raises ShapeError for any other rank or inner extents that differ.
    """
    takes("mm", ("self", input, 2), ("mat2", mat2, 2))
    return product("mm", input, mat2)


@composite(
    functions=("bmm",),
    of_one="matmul",
    supports=NUMERIC,
    methods=("bmm",),
    samples=lambda rng: sample_pairs(
        rng, ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (1, 3, 4)), ((0, 2, 3), (0, 3, 4))
    ),
)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """y[b] = x[b] @ w[b]. x: (b, n, m)   mat2: (b, m, p)   ->   (b, n, p).

    Raises ShapeError for any other rank, or extents that differ: nothing broadcasts.
    """
    batches_multiply("bmm", input, mat2)
    return ops.contract(input, mat2, (2,), (1,), (0,), (0,))


@composite(
    functions=("mv",),
    supports=NUMERIC,
    methods=("mv",),
    samples=lambda rng: sample_pairs(rng, ((2, 3), (3,)), ((0, 3), (3,)), ((2, 0), (0,))),
)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """y = x @ v. x: (n, m)   vec: (m,)   ->   (n,)."""
    takes("mv", ("self", input, 2), ("vec", vec, 1))
    return product("mv", input, vec)


def _dot(op: str, x: Tensor, y: Tensor) -> Tensor:
    takes(op, ("self", x, 1), ("tensor", y, 1))
    same_dtype(op, x, y)
    if x.shape[0] != y.shape[0]:
        raise ShapeError(
            f"{op}: inconsistent tensor size, expected tensors to have the same number of "
            f"elements, but got {x.shape[0]} and {y.shape[0]} elements respectively"
        )
    return ops.contract(x, y, (0,), (0,))


@composite(
    functions=("dot",),
    supports=NUMERIC,
    methods=("dot",),
    samples=lambda rng: sample_pairs(rng, ((3,), (3,)), ((0,), (0,)), ((1,), (1,))),
)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """y = sum of x * v for two vectors of equal length."""
    return _dot("dot", input, tensor)


@composite(
    functions=("vdot",),
    supports=NUMERIC,
    methods=("vdot",),
    samples=lambda rng: sample_pairs(rng, ((3,), (3,)), ((0,), (0,))),
)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """y = sum of conj(x) * v for two vectors of equal length."""
    return _dot("vdot", ops.conj(input) if input.dtype.is_complex else input, other)


def _inner_nodes(n: NodeBuilder, x: NodeOperand, y: NodeOperand) -> object:
    if x.rank == 0 or y.rank == 0:
        return n.Mul(x, y)
    return tensordot_nodes(n, x, y, ((-1,), (-1,)))


@composite(
    functions=("inner",),
    supports=NUMERIC,
    methods=("inner",),
    samples=lambda rng: sample_pairs(
        rng, ((3,), (3,)), ((2, 3), (4, 5, 3)), ((), (2,)), ((2, 3), (3,))
    ),
    grad_nodes=_inner_nodes,
)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """y = sum over the last dims of both; plain multiplication if either is 0-d.

    input: (..., n)   other: (*, n)   ->   (..., *)
    """
    if len(input.shape) == 0 or len(other.shape) == 0:
        return ops.mul(input, other)
    same_dtype("inner", input, other)
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(
            "inner: the last dimension must match on both input tensors but got shapes "
            f"{hints(input.shape)} and {hints(other.shape)}"
        )
    return ops.contract(input, other, (len(input.shape) - 1,), (len(other.shape) - 1,))


@composite(
    functions=("outer", "ger"),
    methods=("outer", "ger"),
    samples=lambda rng: sample_pairs(rng, ((2,), (3,)), ((0,), (3,))),
    grad_name="MulBackward0",
    grad_nodes=lambda n, x, y: n.Mul(n.View(x), y),
)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """y[i, j] = x[i] * v[j]. input: (n,)   vec2: (m,)   ->   (n, m)."""
    takes("outer", ("self", input, 1), ("vec2", vec2, 1))
    return ops.mul(ops.unsqueeze(input, 1), ops.unsqueeze(vec2, 0))


# --- layers ----------------------------------------------------------------------------------


def _linear_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from sample_pairs(
        rng,
        ((2, 3), (4, 3), (4,)),
        ((2, 3), (4, 3)),
        ((5, 2, 3), (4, 3), (4,)),
        ((3,), (4, 3), (4,)),
        ((3,), (3,)),
        ((2, 3), (3,), ()),
        ((0, 3), (4, 3), (4,)),
    )


def _onnx_linear(
    self: Primitive, g: OnnxBuilder, x: OnnxValue, weight: OnnxValue, bias: OnnxValue | None
) -> Any:
    wide = accumulator(x.dtype)
    if bias is None or (x.rank, weight.rank) != (2, 2) or not g.runs("Gemm", wide):
        return NotImplemented
    operands = (g.cast(operand, wide) for operand in (x, weight, bias))
    return g.cast(g.node("Gemm", *operands, transB=1), x.dtype)


@composite(
    onnx=_onnx_linear,
    functional=("linear",),
    rows_of="input",
    samples=_linear_samples,
    supports=NUMERIC,
    grad_nodes=linear_nodes,
)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x @ weight.T + bias.

    x: (..., n)   weight: (m, n) or (n,)   bias: (m,) or ()   ->   y: (..., m) or (...)
    Raises ShapeError if the last dim of x is not n or bias does not fit, DTypeError for operands
    of two types.
    """
    same_dtype("linear", input, weight, *(() if bias is None else (bias,)))
    rank = len(weight.shape)
    if len(input.shape) == 0 or rank not in (1, 2):
        raise ShapeError(
            f"linear: takes input of at least 1 dim and a 1-D or 2-D weight, "
            f"but they have shapes {hints(input.shape)} and {hints(weight.shape)}"
        )
    if input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: input has {input.shape[-1]} features (shape {hints(input.shape)}), but "
            f"weight takes {weight.shape[-1]} (shape {hints(weight.shape)}): mat1 and mat2 shapes "
            f"cannot be multiplied ({_flat(input)} and {times(weight, -1)})"
        )
    y = ops.contract(input, weight, (len(input.shape) - 1,), (rank - 1,))
    if bias is None:
        return y
    expected = weight.shape[:-1]
    fits = len(bias.shape) == 0 or (
        len(bias.shape) == rank - 1 and (bias.shape[0] == expected[0] or bias.shape[0] == 1)
    )
    if not fits:
        raise ShapeError(
            f"linear: bias of shape {hints(bias.shape)} does not fit weight of shape "
            f"{hints(weight.shape)}: expected {hints(expected)}"
        )
    return ops.add(y, bias)


def _bilinear_nodes(
    n: NodeBuilder, x: NodeOperand, y: NodeOperand, weight: NodeOperand, bias: NodeOperand | None
) -> object:
    product = n.View(n.Trilinear(n.View(x), weight, n.View(y)))
    return product if bias is None else n.Add(product, bias)


@composite(
    functions=("bilinear",),
    supports=NUMERIC,
    functional=("bilinear",),
    samples=lambda rng: sample_pairs(
        rng,
        ((2, 3), (2, 4), (5, 3, 4), (5,)),
        ((2, 3), (2, 4), (5, 3, 4)),
        ((6, 2, 3), (6, 2, 4), (5, 3, 4), (5,)),
        ((3,), (4,), (5, 3, 4)),
    ),
    grad_nodes=_bilinear_nodes,
)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[..., o] = sum over i, j of x1[..., i] * weight[o, i, j] * x2[..., j] + bias[o].

    input1: (..., n)   input2: (..., m)   weight: (p, n, m)   bias: (p,)   ->   (..., p)
    Raises ShapeError if ranks or extents do not fit.
    """
    takes("bilinear", ("weight", weight, 3))
    rank = len(input1.shape)
    fits = rank == len(input2.shape) and rank > 0
    fits = fits and all(a == b for a, b in zip(input1.shape[:-1], input2.shape[:-1], strict=True))
    if not fits or input1.shape[-1] != weight.shape[1] or input2.shape[-1] != weight.shape[2]:
        raise ShapeError(
            f"bilinear: inputs of shapes {hints(input1.shape)} and {hints(input2.shape)} do not "
            f"fit weight of shape {hints(weight.shape)}: expected (..., {weight.shape[1]}) and "
            f"(..., {weight.shape[2]}) with the same leading dims"
        )
    left = ops.contract(input1, weight, (rank - 1,), (1,))  # (..., p, m)
    batch = tuple(range(rank - 1))
    y = ops.contract(left, input2, (rank,), (rank - 1,), batch, batch)
    return y if bias is None else ops.add(y, bias)


# --- tensordot -------------------------------------------------------------------------------


def _tensordot_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x, y = rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 4, 5))
    yield Sample(x, y)
    yield Sample(x, y, 2)
    yield Sample(x, y, ((1, 2), (0, 1)))
    yield Sample(x, y, ((2,), (-2,)))
    yield Sample(x, y, 0)


@composite(
    functions=("tensordot",),
    supports=NUMERIC,
    samples=_tensordot_samples,
    grad_nodes=tensordot_nodes,
)
def tensordot(a: Tensor, b: Tensor, dims: Attr = 2) -> Tensor:
    """y = sum over pairs of dims of a and b: the last and first `dims`, or (dims of a, of b).

    Raises ShapeError where paired extents differ (either may be 1: the second is summed by itself).
    """
    if isinstance(dims, int):
        if dims < 0 or dims > min(len(a.shape), len(b.shape)):
            raise ShapeError(
                f"tensordot: expects dims >= 0 and at most the ranks, but got dims={dims}"
            )
        of_a = tuple(range(len(a.shape) - dims, len(a.shape)))
        of_b = tuple(range(dims))
    else:
        dim_lists = [(d,) if isinstance(d, int) else tuple(d) for d in dims]
        if len(dim_lists) != 2 or len(dim_lists[0]) != len(dim_lists[1]):
            raise ShapeError(
                f"tensordot: both dimension lists should have the same length, but dims are {dims}"
            )
        of_a = normalize_dims(dim_lists[0], len(a.shape), "tensordot")
        of_b = normalize_dims(dim_lists[1], len(b.shape), "tensordot")
    same_dtype("tensordot", a, b)
    a, b, of_a, of_b = _sum_singles(a, b, of_a, of_b)
    for i, j in zip(of_a, of_b, strict=True):
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"tensordot: contracted dimensions need to match, but first has size {a.shape[i]} "
                f"in dim {i} and second has size {b.shape[j]} in dim {j}"
            )
    return ops.contract(a, b, of_a, of_b)


def _sum_singles(a: Tensor, b: Tensor, of_a: Any, of_b: Any) -> Any:
    """Sum over a dim that is paired with an extent of 1, where the two extents differ."""
    for i, j in zip(of_a, of_b, strict=True):
        if a.shape[i] == b.shape[j]:
            continue
        if a.shape[i] == 1:
            b = ops.sum(b, j, True, dtype=b.dtype)
        elif b.shape[j] == 1:
            a = ops.sum(a, i, True, dtype=a.dtype)
    return a, b, of_a, of_b


def _with_lists(positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls whose dims are lists or tensors (attributes must be hashable), or with `out` behind."""
    result = with_out(tensordot, 3, positional, keywords)
    if result is not NotImplemented:
        return result
    dims = positional[2] if len(positional) > 2 else keywords.get("dims", 2)
    if isinstance(dims, int):
        return NotImplemented
    plain_dims = dims.tolist() if hasattr(dims, "tolist") else dims
    if isinstance(plain_dims, (int, float)):
        return tensordot(*positional[:2], int(plain_dims))
    fixed = tuple(row if isinstance(row, int) else tuple(row) for row in plain_dims)
    if fixed == dims:
        return NotImplemented
    a = positional[0] if positional else keywords["a"]
    b = positional[1] if len(positional) > 1 else keywords["b"]
    return tensordot(a, b, fixed)


tensordot.general = _with_lists
