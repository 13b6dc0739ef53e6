"""The contraction primitive: all matrix products are made of it.

`contract(x, y)` multiplies two tensors and sums over pairs of dims.  Batch dims are paired and
kept, contracted dims are paired and summed, all further dims are kept:

    result dims = batch dims (as paired), then further dims of x, then further dims of y, each in
    order

The op is bilinear, and its gradients are contractions.  The sugar (matmul, einsum, linear, ...) is
in `composites/contract.py`; dims are handed over in place, so nothing is transposed in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import from_numpy
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.base.shapes import normalize_dims
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import Array, accumulator, array, require, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.reduce import conj

Axes = tuple[int, ...]


class Contract(Primitive):
    """y = sum over the contracted dims of x * y, kept apart by the batch dims.

    batch_x[k] of x is paired with batch_y[k] of y, and sum_x[k] with sum_y[k].
    x: (batch, sum, free_x in any order)   y: (batch, sum, free_y)   ->   (batch, free_x, free_y)
    float16 and bfloat16 are accumulated in float32, ints exactly (modulo 2**bits).
    Raises DTypeError for operands of two types, ShapeError where paired dims differ in size.
    """

    signature = "input, other, sum_x: ints, sum_y: ints, batch_x: ints = (), batch_y: ints = ()"
    facts = OpFacts(supports=frozenset({"int", "float", "complex"}), smooth=True)
    schedule = OpSchedule(heavy=True, turns=True)
    sum_x: Axes
    sum_y: Axes
    batch_x: Axes
    batch_y: Axes

    def layout(self, rank_x: int, rank_y: int) -> tuple[Axes, Axes, Axes, Axes, Axes, Axes]:
        """(batch, sum, free) axes of x, then of y, counted from 0."""
        sum_x = normalize_dims(self.sum_x, rank_x, "contract")
        sum_y = normalize_dims(self.sum_y, rank_y, "contract")
        batch_x = normalize_dims(self.batch_x, rank_x, "contract")
        batch_y = normalize_dims(self.batch_y, rank_y, "contract")
        free_x = tuple(i for i in range(rank_x) if i not in sum_x + batch_x)
        free_y = tuple(i for i in range(rank_y) if i not in sum_y + batch_y)
        return batch_x, sum_x, free_x, batch_y, sum_y, free_y

    def by_rows(self, rows: tuple[bool, ...], ranks: tuple[int, ...]) -> bool:
        """Dim 0 of the operand with rows is kept and comes first."""
        batch, _, free_x, _, _, free_y = self.layout(*ranks)
        first = free_x if rows[0] else () if free_x else free_y
        return rows[0] != rows[1] and not batch and first[:1] == (0,)

    def infer(self, x: Spec, y: Spec) -> Spec:
        require("contract", self.facts.supports, x.dtype, y.dtype)
        if x.dtype is not y.dtype:
            raise DTypeError(
                f"contract: expected both operands to have the same dtype, "
                f"but got {x.dtype} and {y.dtype}"
            )
        bx, sx, fx, by, sy, fy = self.layout(x.rank, y.rank)
        if len(sx) != len(sy) or len(bx) != len(by):
            raise ShapeError("contract: dims must be paired one to one")
        for i, j in zip(sx + bx, sy + by, strict=True):
            if x.shape[i] != y.shape[j]:
                raise ShapeError(
                    f"contract: shapes {hints(x.shape)} and {hints(y.shape)} do not fit: "
                    f"dim {i} of the first has size {x.shape[i]}, dim {j} of the second "
                    f"{y.shape[j]}"
                )
        kept = [x.shape[i] for i in bx + fx] + [y.shape[i] for i in fy]
        return Spec(tuple(kept), x.dtype)

    def reference(self, x: Array, y: Array, turned: bool = False) -> Array:
        bx, sx, fx, by, sy, fy = self.layout(x.ndim, y.ndim)
        dtype = from_numpy(x.dtype)
        shape = [x.shape[i] for i in bx + fx] + [y.shape[i] for i in fy]
        batch = [x.shape[i] for i in bx]
        count = math.prod(x.shape[i] for i in sx)
        left = widen(x).transpose(bx + fx + sx)
        left = left.reshape(*batch, math.prod(x.shape[i] for i in fx), count)
        right = widen(y).transpose(by + sy + fy)
        right = right.reshape(*batch, count, math.prod(y.shape[i] for i in fy))
        return array(np.matmul(left, right).reshape(shape), dtype)

    def runner(self, operands: list[Any]) -> Callable[..., Array]:
        """`reference` for operands of known ranks and dtypes: the layout is worked out once.

        turned: the result is to lie column by column
        """
        x, y = operands
        if x.dtype.numpy not in (np.float32, np.float64):
            return self.reference
        bx, sx, fx, by, sy, fy = self.layout(x.rank, y.rank)
        order_x, order_y = bx + fx + sx, by + sy + fy
        turn_x = order_x != tuple(range(x.rank))
        turn_y = order_y != tuple(range(y.rank))
        nb, nx, ns = len(bx), len(fx), len(sx)
        plain = nx == ns == len(fy) == 1  # nothing to be put together before, or apart after
        multiply = np.matmul if nb else np.dot

        def run(x: Array, y: Array, turned: bool = False) -> Array:
            left = x.transpose(order_x) if turn_x else x
            right = y.transpose(order_y) if turn_y else y
            if plain:
                return multiply(right.T, left.T).T if turned and not nb else multiply(left, right)
            batch, rows = left.shape[:nb], left.shape[nb : nb + nx]
            columns = right.shape[nb + ns :]
            count = math.prod(left.shape[nb + nx :])
            left = left.reshape((*batch, math.prod(rows), count))
            right = right.reshape((*batch, count, math.prod(columns)))
            return multiply(left, right).reshape((*batch, *rows, *columns))

        return run

    def vjp(self, g: Tensor, out: Tensor, x: Tensor, y: Tensor) -> tuple[Any, ...]:
        bx, sx, fx, by, sy, fy = self.layout(len(x.shape), len(y.shape))
        nb, nx = len(bx), len(fx)
        batch = tuple(range(nb))
        in_x = tuple(range(nb, nb + nx))  # where x's and y's free dims lie in g
        in_y = tuple(range(nb + nx, nb + nx + len(fy)))
        # The dims of y that g is not summed over come out in y's order, not in the pairs'.
        gx = ops.contract(g, conj(y), in_y, fy, batch, by)
        order = sorted(range(len(sy)), key=sy.__getitem__)
        gx = _put_back(gx, bx + fx + tuple(sx[k] for k in order))
        gy = ops.contract(conj(x), g, fx, in_x, bx, batch)
        order = sorted(range(len(sx)), key=sx.__getitem__)
        gy = _put_back(gy, by + tuple(sy[k] for k in order) + fy)
        return gx, gy

    def onnx(self, g: OnnxBuilder, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        bx, sx, fx, by, sy, fy = self.layout(x.rank, y.rank)
        wide = accumulator(x.dtype)
        plain = len(sx) == 1 and len(fy) <= 1 and not bx
        if plain or (bx and len(sx) == len(fx) == len(fy) == 1):
            left = g.transpose(g.cast(x, wide), bx + fx + sx)
            right = g.transpose(g.cast(y, wide), by + sy + fy)
            if fy:
                return g.cast(g.node("MatMul", left, right), x.dtype)
            # A matrix of a single column: onnxruntime's fusions turn a vector.
            column = g.node("Unsqueeze", right, g.sizes((1,)))
            product = g.node("MatMul", left, column)
            return g.cast(g.node("Squeeze", product, g.sizes((-1,))), x.dtype)
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        of_x = {axis: next(letters) for axis in range(x.rank)}
        of_y = {j: of_x[i] for i, j in zip(bx + sx, by + sy, strict=True)}
        of_y |= {j: next(letters) for j in fy}
        result = "".join([of_x[i] for i in bx + fx] + [of_y[j] for j in fy])
        operands = ",".join("".join(of[k] for k in sorted(of)) for of in (of_x, of_y))
        einsum = g.node(
            "Einsum", g.cast(x, wide), g.cast(y, wide), equation=f"{operands}->{result}"
        )
        return g.cast(einsum, x.dtype)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, y: Tensor) -> Tensor:
        rank_x = len(x.shape) - batched[0]
        rank_y = len(y.shape) - batched[1]
        bx, sx, fx, by, sy, fy = self.layout(rank_x, rank_y)
        if batched[0]:
            bx, sx = tuple(i + 1 for i in bx), tuple(i + 1 for i in sx)
        if batched[1]:
            by, sy = tuple(i + 1 for i in by), tuple(i + 1 for i in sy)
        if batched[0] and batched[1]:
            return ops.contract(x, y, sx, sy, (0, *bx), (0, *by))
        out = ops.contract(x, y, sx, sy, bx, by)
        # The new dim is the first free dim of the batched operand.
        at = len(bx) + (0 if batched[0] else len(fx))
        rank = len(bx) + len(fx) + len(fy) + 1
        if at == 0:
            return out
        return ops.permute(out, (at, *(i for i in range(rank) if i != at)))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        def pair(a: Any, b: Any, *dims: Any) -> Sample:
            return Sample(rng.normal(size=a), rng.normal(size=b), *dims)

        yield pair((2, 3), (3, 4), (1,), (0,))
        yield pair((2, 3), (4, 3), (-1,), (-1,))
        yield pair((3,), (3,), (0,), (0,))
        yield pair((2,), (3,), (), ())
        yield pair((), (2, 3), (), ())
        yield pair((5, 2, 3), (3, 5, 4), (2,), (0,), (0,), (1,))
        yield pair((2, 3, 4, 5), (5, 2, 6, 3), (1, 3), (3, 0), (0,), (1,))
        yield pair((2, 3, 4, 5), (5, 2, 6, 3), (3, 1), (0, 3), (0,), (1,))
        yield pair((2, 3), (2, 3), (), (), (0, 1), (0, 1))
        yield pair((2, 0), (0, 3), (1,), (0,))
        yield pair((0, 2), (2, 3), (1,), (0,))
        yield pair((1, 1), (1, 1), (1,), (0,))
        yield Sample(rng.integers(-9, 9, size=(2, 3)), rng.integers(-9, 9, size=(3, 2)), (1,), (0,))


def _put_back(x: Tensor, axes: Axes) -> Tensor:
    """x with dim k moved to dim axes[k]."""
    if axes == tuple(range(len(axes))):
        return x
    inverse = [0] * len(axes)
    for k, axis in enumerate(axes):
        inverse[axis] = k
    return ops.permute(x, tuple(inverse))
